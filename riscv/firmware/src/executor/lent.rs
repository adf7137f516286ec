//! The weak hart's registers, and the state that a hart lends it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arrayvec::ArrayVec;
use poorwill_arch::ipi::Ipi;
use poorwill_arch::{Mmio, csr};
use poorwill_devicetree::{MAX_LENT, Machine, Plic, WeakHart};
use poorwill_drivers::{HartDeadline, SharedContext};
use poorwill_hart::trigger::Triggers;
use poorwill_hart::{AskCell, Gathering, IpiDevice};
use poorwill_translate::{Activity, End, Half, VirtualHart};
use spin::{Mutex, Once};

use super::lower;
use crate::platform::console::say;

/// The weak hart.
#[derive(Debug)]
pub(super) struct Executor {
    pub(super) ipi: Ipi,
    pub(super) deadline: HartDeadline<Mmio>,
    pub(super) interrupts: SharedContext<Mmio>,
    /// Registers of the PLIC.
    pub(super) plic: u64,
    /// The lent hart's job for it.
    pub(super) ask: AskCell,
    /// It waits for jobs.
    pub(super) has_arrived: AtomicBool,
    /// Harts, by their places, that have lent their state and wait for its end. While there is one,
    /// the OS's stopped harts take no start.
    pub(super) lent: AtomicU32,
    /// Harts of the OS that leave it for the suspend half.
    pub(super) gathering: Gathering,
    /// The start of the OS's suspend half.
    pub(super) triggers: Triggers<MAX_LENT>,
    /// The start was searched for.
    pub(super) has_searched: AtomicBool,
    /// A missing trigger was reported.
    pub(super) has_reported: AtomicBool,
    /// Harts, by their places, that were given back and have not taken their state yet.
    pub(super) given: AtomicU32,
}

impl Executor {
    pub(super) fn has_arrived(&self) -> bool {
        self.has_arrived.load(Ordering::Acquire)
    }

    /// Notes that the hart at a place has lent its state.
    pub(super) fn lend(&self, place: usize) {
        self.lent.fetch_or(1 << place, Ordering::AcqRel);
    }

    /// Returns whether the hart at a place waits for its state.
    pub(super) fn has_lent(&self, place: usize) -> bool {
        self.lent.load(Ordering::Acquire) >> place & 1 != 0
    }

    /// Ends the lending: the harts of `given` have an OS, and may take their state. The other lent
    /// harts were stopped. Returns the places of all that wait.
    pub(super) fn give_back(&self, given: u32) -> u32 {
        self.given.fetch_or(given, Ordering::Release);
        self.lent.swap(0, Ordering::AcqRel) | given
    }

    /// Takes the calling hart's state back, once. Returns whether it was given.
    pub(super) fn take(&self, place: usize) -> bool {
        let bit = 1 << place;
        self.given.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }
}

static EXECUTOR: Once<Executor> = Once::new();

/// The weak hart, if the machine has one.
pub(super) fn executor() -> Option<&'static Executor> {
    EXECUTOR.get()
}

/// Wakes the weak hart in entry.S, after the harts have their stacks.
pub(crate) fn release() {
    if let Some(executor) = executor() {
        executor.ipi.send();
    }
}

/// The lent harts of an OS.
#[derive(Debug)]
pub(super) struct Lent {
    /// All harts of the OS, by their places in the list of harts.
    pub(super) harts: ArrayVec<VirtualHart, MAX_LENT>,
    /// Place of the hart that lends; afterwards, of the hart at which the work has ended.
    pub(super) place: usize,
    pub(super) end: End,
    pub(super) half: Half,
}

impl Lent {
    /// Instructions of all harts.
    pub(super) fn instructions(&self) -> u64 {
        self.harts.iter().map(|hart| hart.counts.instructions).sum()
    }

    /// Notes that a hart spins.
    pub(super) fn note_pause(&mut self) {
        (self.half.spins).note(self.instructions(), csr::read::<{ csr::MINSTRET }>());
    }

    /// The harts that run or wait, by their places.
    pub(super) fn running(&self) -> u32 {
        let running = self.harts.iter().enumerate();
        let running = running.filter(|(_, hart)| hart.activity != Activity::Stopped);
        running.fold(0, |bits, (place, _)| bits | 1 << place)
    }
}

/// One hart at a time uses it: one of the OS's before the lender asks and after the job is done, else
/// the weak hart.
pub(super) static LENT: Mutex<Lent> = Mutex::new(Lent {
    harts: ArrayVec::new_const(),
    place: 0,
    end: End::Unknown,
    half: Half::NONE,
});

/// Sets the executor up, or says why the machine has none. The weak hart starts afterwards.
///
/// # Safety
///
/// `machine` describes this machine, and this is called once.
pub(crate) unsafe fn start(machine: &Machine) {
    let WeakHart {
        hart,
        context,
        without,
    } = match machine.executor {
        None => return,
        Some(Err(error)) => return say!("executor is off: {error}"),
        Some(Ok(weak)) => weak,
    };
    let plic = machine.interrupts.plics.first();
    let is_whole = |plic: &&Plic| plic.contexts.len() == machine.harts.len();
    let Some((plic, mtimecmp)) = plic.filter(is_whole).zip(hart.mtimecmp) else {
        return say!("executor is off: the PLIC has no context of a hart of the OS");
    };
    let harts = machine.harts.iter().take(MAX_LENT);
    let [mtime] = *machine.mtime else {
        return say!("executor is off: several MTIME registers");
    };
    lower::place(mtime, without);
    harts.for_each(|_| LENT.lock().harts.push(VirtualHart::new()));
    EXECUTOR.call_once(|| {
        // SAFETY: by the caller's contract the tree is right; it names these registers.
        let (ipi, deadline, registers) =
            unsafe { (Ipi::new(&hart), Mmio::new(mtimecmp), Mmio::new(plic.base)) };
        Executor {
            ipi,
            deadline: HartDeadline::new(deadline),
            interrupts: SharedContext::new(
                registers,
                plic.sources,
                plic.contexts.iter().copied().take(MAX_LENT).collect(),
                context,
            ),
            plic: plic.base,
            ask: AskCell::new(),
            has_arrived: AtomicBool::new(false),
            lent: AtomicU32::new(0),
            gathering: Gathering::new(),
            triggers: Triggers::new(),
            has_searched: AtomicBool::new(false),
            has_reported: AtomicBool::new(false),
            given: AtomicU32::new(0),
        }
    });
}
