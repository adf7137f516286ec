//! The loaded plugin: what it was asked for, its way into QEMU, and its model.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::model::{Guard, Model};
use crate::options::Options;
use crate::qemu::counters::CsrTable;
use crate::qemu::interface::{Interface, Registers};
use crate::qemu::internals::{Cpu, Internals, Irq};

/// QEMU's exit status if the plugin cannot go on, which it says why on standard error.
pub const FAILED: i32 = 78;

/// The plugin, of which QEMU loads one.
static SESSION: OnceLock<Session> = OnceLock::new();

/// The loaded plugin.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) qemu: Interface,
    pub(crate) internals: Internals,
    pub(crate) csrs: CsrTable,
    model: Mutex<Model>,
    /// Told when all harts are idle.
    pub(crate) all_idle: Condvar,
    /// What the virtual clock shows, in nanoseconds, if the time base is on.
    pub(crate) clock: AtomicI64,
    /// How many harts there are.
    pub(crate) harts: usize,
    /// Those that were made.
    cpus: Vec<OnceLock<Cpu>>,
    pub(crate) registers: OnceLock<Registers>,
    /// The line, once the machine has an interrupt controller.
    pub(crate) line: OnceLock<Irq>,
    /// The state of the random choice which lines are kept.
    random: AtomicU64,
}

impl Session {
    pub(crate) fn new(
        options: Options,
        qemu: Interface,
        internals: Internals,
        csrs: CsrTable,
        model: Model,
        harts: usize,
    ) -> Self {
        Session {
            random: AtomicU64::new(options.seed),
            options,
            qemu,
            internals,
            csrs,
            model: Mutex::new(model),
            all_idle: Condvar::new(),
            clock: AtomicI64::new(0),
            harts,
            cpus: std::iter::repeat_with(OnceLock::new).take(harts).collect(),
            registers: OnceLock::new(),
            line: OnceLock::new(),
        }
    }

    /// Keeps it for QEMU's calls; whether it is the only one.
    pub(crate) fn keep(self) -> bool {
        SESSION.set(self).is_ok()
    }

    /// That of QEMU's calls.
    pub(crate) fn get() -> &'static Session {
        SESSION.get().expect("QEMU calls what was loaded")
    }

    /// The model. The caller holds no other guard, and takes the big lock only without.
    pub(crate) fn model(&self) -> Guard<'_> {
        // A panic ends QEMU.
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hart's index, from QEMU's number.
    pub(crate) fn hart(number: c_uint) -> usize {
        number as usize
    }

    /// Keeps a hart that was made.
    pub(crate) fn made(&self, hart: usize, cpu: Cpu) {
        self.cpus[hart].get_or_init(|| cpu);
    }

    /// A hart, to QEMU.
    pub(crate) fn cpu(&self, hart: usize) -> Cpu {
        *self.cpus[hart]
            .get()
            .expect("a hart is made before it runs")
    }

    /// The number of a hart.
    pub(crate) fn number(&self, cpu: Cpu) -> Option<usize> {
        self.cpus.iter().position(|known| known.get() == Some(&cpu))
    }

    /// The number of the hart whose registers QEMU keeps at `state`, which is a part of
    /// the hart.
    pub(crate) fn holder(&self, state: *mut c_void) -> Option<usize> {
        let address = |at: &OnceLock<Cpu>| at.get().map_or(0, |cpu| cpu.address());
        let below = |at: &usize| (1..=state.addr()).contains(&address(&self.cpus[*at]));
        let harts = (0..self.harts).filter(below);
        harts.max_by_key(|hart| address(&self.cpus[*hart]))
    }

    /// What all counters show.
    pub(crate) fn counters(&self) -> Vec<u64> {
        let harts = 0..self.harts;
        harts.map(|hart| self.qemu.read_counter(hart)).collect()
    }

    /// Whether the next dirty line is kept.
    pub(crate) fn is_kept(&self) -> bool {
        // SplitMix64.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let before = self.random.fetch_add(STEP, Ordering::Relaxed);
        let mut mixed = before.wrapping_add(STEP);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        mixed % 100 < u64::from(self.options.keep)
    }
}

/// Ends QEMU because the plugin cannot go on.
pub(crate) fn fail(reason: &dyn std::fmt::Display) -> ! {
    eprintln!("poorwill-plugin: {reason}");
    exit_now(FAILED)
}

/// Ends QEMU without another step of the machine or its devices.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: nothing is left to do.
    unsafe { libc::_exit(status) }
}
