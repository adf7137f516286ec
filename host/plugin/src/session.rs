//! The plugin after its start: its options, its access to QEMU, and its model.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::AtomicI64;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::model::{Guard, Model};
use crate::options::Options;
use crate::qemu::counters::CsrTable;
use crate::qemu::interface::{Interface, Registers};
use crate::qemu::internals::{Cpu, Internals, Irq};

/// QEMU's exit status after an error of the plugin. The reason is on standard error.
pub const FAILED: i32 = 78;

/// The plugin. QEMU loads it once.
static SESSION: OnceLock<Session> = OnceLock::new();

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) qemu: Interface,
    pub(crate) internals: Internals,
    pub(crate) csrs: CsrTable,
    model: Mutex<Model>,
    /// Signalled when all harts are idle.
    pub(crate) all_idle: Condvar,
    /// The virtual clock's time in nanoseconds, if the time base is on.
    pub(crate) clock: AtomicI64,
    /// Number of harts.
    pub(crate) harts: usize,
    /// QEMU's object for each hart, from the hart's creation on.
    cpus: Vec<OnceLock<Cpu>>,
    pub(crate) registers: OnceLock<Registers>,
    /// The power-fail line, once the machine has an interrupt controller.
    pub(crate) line: OnceLock<Irq>,
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

    /// Stores the session for QEMU's later calls. `false`: there already is one.
    pub(crate) fn keep(self) -> bool {
        SESSION.set(self).is_ok()
    }

    /// The stored session.
    pub(crate) fn get() -> &'static Session {
        SESSION.get().expect("QEMU calls a loaded plugin")
    }

    /// Locks the model. The caller must hold no other guard, and must not take the big lock until
    /// it drops this one.
    pub(crate) fn model(&self) -> Guard<'_> {
        // A panic ends QEMU, so the lock is never poisoned.
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hart's index, from the number that QEMU passes.
    pub(crate) fn hart(number: c_uint) -> usize {
        number as usize
    }

    /// Stores QEMU's object for a new hart.
    pub(crate) fn made(&self, hart: usize, cpu: Cpu) {
        self.cpus[hart].get_or_init(|| cpu);
    }

    /// QEMU's object for a hart.
    pub(crate) fn cpu(&self, hart: usize) -> Cpu {
        *self.cpus[hart]
            .get()
            .expect("a hart is made before it runs")
    }

    /// QEMU's objects of the harts that exist.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = Cpu> {
        self.cpus.iter().filter_map(|cpu| cpu.get().copied())
    }

    /// The number of a hart.
    pub(crate) fn number(&self, cpu: Cpu) -> Option<usize> {
        self.cpus.iter().position(|known| known.get() == Some(&cpu))
    }

    /// The number of the hart whose object contains `state`, QEMU's pointer to the hart's
    /// registers.
    pub(crate) fn holder(&self, state: *mut c_void) -> Option<usize> {
        let address = |at: &OnceLock<Cpu>| at.get().map_or(0, |cpu| cpu.address());
        let below = |at: &usize| (1..=state.addr()).contains(&address(&self.cpus[*at]));
        let harts = (0..self.harts).filter(below);
        harts.max_by_key(|hart| address(&self.cpus[*hart]))
    }

    /// Instructions that a hart has executed.
    pub(crate) fn executed_by(&self, hart: usize) -> u64 {
        self.model()
            .instructions(hart, self.qemu.read_counter(hart))
    }

    /// Instructions that each hart has executed.
    pub(crate) fn executed(&self) -> Vec<u64> {
        (0..self.harts).map(|hart| self.executed_by(hart)).collect()
    }

    /// Each hart's counter of executed instructions.
    pub(crate) fn counters(&self) -> Vec<u64> {
        let harts = 0..self.harts;
        harts.map(|hart| self.qemu.read_counter(hart)).collect()
    }
}

/// Ends QEMU after an error of the plugin.
pub(crate) fn fail(reason: &dyn std::fmt::Display) -> ! {
    eprintln!("poorwill-plugin: {reason}");
    exit_now(FAILED)
}

/// Ends QEMU at once: the machine and its devices do no further step.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: the process ends here.
    unsafe { libc::_exit(status) }
}
