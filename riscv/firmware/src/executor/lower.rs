//! The weak hart's user mode, in which translated code runs.

use core::arch::global_asm;

use poorwill_arch::{Mmio, csr, fence};
use poorwill_devicetree::Without;
use poorwill_domain::pmp::TranslatedCode;
use poorwill_drivers::HartDeadline;
use poorwill_hart::interrupt;
use poorwill_memory::{PAGE_BYTES, PhysRange};
use poorwill_translate::{
    Blocks, Core, Environment, Index, Left, Options, REGION_BYTES, Region, Watch,
};
use spin::{Mutex, Once};

use crate::domain::{self, pmp};
use crate::hart;
use crate::platform::console::say;
use crate::platform::platform;

global_asm!(
    include_str!("lower.S"),
    MPP = const csr::status::MPP,
    DOUBLE_TRAP = const csr::status::MDT,
);

unsafe extern "C" {
    /// Runs user mode from an address on until it traps (lower.S).
    fn enter_lower(registers: *mut u64, address: u64);
}

/// Bytes at the end of the firmware's second range for translated code: the index, a page that it writes,
/// and the region.
pub(crate) const EXECUTOR_BYTES: u64 = size_of::<Index>() as u64 + PAGE_BYTES + REGION_BYTES;

/// Executions of an address before it is translated.
const EXECUTIONS: u8 = 0;

/// Where translated code lies, what it reaches, and what it does without.
static PLACES: Once<(TranslatedCode, Without)> = Once::new();

/// The blocks of the OS. The weak hart alone uses them.
pub(super) static BLOCKS: Mutex<Option<Blocks<'static>>> = Mutex::new(None);

/// Notes where translated code will lie. `mtime`: the register.
pub(super) fn place(mtime: u64, without: Without) {
    let end = platform().firmware[1].end;
    let reach = TranslatedCode {
        text: PhysRange::EMPTY,
        page: PhysRange::new(end - REGION_BYTES - PAGE_BYTES, PAGE_BYTES),
        code: PhysRange::new(end - REGION_BYTES, REGION_BYTES),
        mtime,
    };
    PLACES.call_once(|| (reach, without));
}

/// Sets up the calling weak hart's PMP and the blocks. Without enough PMP the interpreter
/// alone runs the OS, and user mode has no access at all.
pub(super) fn start() {
    let Some((reach, without)) = PLACES.get().filter(|(_, without)| !without.blocks) else {
        return;
    };
    if let Err(error) = pmp::start_translated_code(reach) {
        return say!("executor: no translation: {error}");
    }
    let start = reach.page.start as usize - size_of::<Index>();
    let index = core::ptr::with_exposed_provenance_mut::<Index>(start);
    let region = core::ptr::with_exposed_provenance_mut::<Region>(reach.code.start as usize);
    let environment =
        core::ptr::with_exposed_provenance_mut::<Environment>(reach.page.start as usize);
    // SAFETY: this memory ends the second range, and only the weak hart uses it, once. Any bits are an
    // index and a region; the environment is written first.
    let memory = unsafe {
        environment.write(Environment::new(reach.mtime));
        (&mut *index, &mut *region, &mut *environment)
    };
    let zero_bytes = (hart::all().iter())
        .map(|hart| hart.description.zero_block)
        .reduce(|one, other| one.filter(|_| one == other))
        .flatten();
    let of_os = domain::all().flat_map(|domain| domain.memory.ranges().iter().copied());
    let hull = of_os.reduce(PhysRange::hull).unwrap_or(reach.page);
    let options = Options {
        counts: !without.counts,
        tables_only: without.sites,
        zero_bytes: zero_bytes.filter(|bytes| *bytes <= 64),
        executions: EXECUTIONS,
        checks: cfg!(feature = "check-blocks"),
    };
    *BLOCKS.lock() = Some(Blocks::new(memory, reach.page.start, hull, options));
}

/// The calling weak hart's user mode, and its timer.
pub(super) struct Lower<'a> {
    timer: &'a HartDeadline<Mmio>,
    /// The timer's deadline, if it is known. Writes of it cost an access to a device.
    deadline: Option<u64>,
}

impl<'a> Lower<'a> {
    pub(super) fn new(timer: &'a HartDeadline<Mmio>) -> Self {
        Lower {
            timer,
            deadline: None,
        }
    }
}

impl Core for Lower<'_> {
    fn enter(
        &mut self,
        x: &mut [u64; 32],
        _: (&Region, &mut Environment),
        at: u64,
        watch: Watch,
    ) -> Left {
        if self.deadline.replace(watch.deadline) != Some(watch.deadline) {
            self.timer.set(watch.deadline);
        }
        let external = if watch.external { interrupt::MEI } else { 0 };
        // SAFETY: user mode reaches the OS's memory, the region, and the environment, which is
        // lent here. Its traps come back with all of this hart's own registers. In machine mode
        // interrupts are off.
        unsafe {
            csr::write::<{ csr::MIE }>(interrupt::MTI | external);
            enter_lower(x.as_mut_ptr(), at);
            csr::write::<{ csr::MIE }>(interrupt::MSI);
        }
        Left {
            cause: csr::read::<{ csr::MCAUSE }>(),
            address: csr::read::<{ csr::MEPC }>(),
        }
    }

    fn fence_instructions(&mut self) {
        fence::instructions();
    }

    fn protect(&mut self, text: PhysRange) -> bool {
        let Some((reach, _)) = PLACES.get() else {
            return false;
        };
        let Err(error) = pmp::start_translated_code(&TranslatedCode { text, ..*reach }) else {
            return true;
        };
        let open = pmp::start_translated_code(reach);
        open.expect("the weak hart has held this plan before");
        static REPORTED: Once<()> = Once::new();
        REPORTED.call_once(|| say!("executor: text is compared at fences: {error}"));
        false
    }
}
