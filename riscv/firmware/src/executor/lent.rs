//! The weak hart's registers, and the state that a hart lends it.

use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_arch::Mmio;
use poorwill_arch::ipi::Ipi;
use poorwill_devicetree::{Machine, WeakHart};
use poorwill_drivers::{HartDeadline, SharedContext};
use poorwill_hart::{AskCell, IpiDevice};
use poorwill_translate::VirtualHart;
use spin::{Mutex, Once};

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
}

impl Executor {
    pub(super) fn has_arrived(&self) -> bool {
        self.has_arrived.load(Ordering::Acquire)
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

/// Why the weak hart has given a hart back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A program is next.
    User,
    /// An SBI call that the lent hart makes itself.
    Call,
    /// An instruction that the lent hart executes itself.
    Unknown,
    /// The time for the work is over.
    Late,
    /// A build for tests gives the hart back between any two instructions.
    Turn,
}

/// The work from a wake to the OS's first program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    /// `time` at its start; zero before it and after it.
    pub(super) began: u64,
    /// Times when the hart was given back and then lent again.
    pub(super) hand_backs: u64,
}

impl Half {
    const NONE: Half = Half {
        began: 0,
        hand_backs: 0,
    };

    pub(super) fn begin(now: u64) -> Self {
        Half {
            began: now.max(1),
            ..Half::NONE
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.began != 0
    }

    pub(super) fn end(&mut self) -> Self {
        core::mem::replace(self, Half::NONE)
    }
}

/// A lent hart.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) hart: VirtualHart,
    /// ID of the hart that lends.
    pub(super) lender: u64,
    pub(super) end: End,
    pub(super) half: Half,
}

/// One hart uses it at a time: the lender before it asks and after the job is done, else the weak
/// hart.
pub(super) static LENT: Mutex<Lent> = Mutex::new(Lent {
    hart: VirtualHart::new(),
    lender: 0,
    end: End::Unknown,
    half: Half::NONE,
});

/// Sets the executor up, or says why the machine has none. The weak hart starts afterwards.
///
/// # Safety
///
/// `machine` describes this machine, and this is called once.
pub(crate) unsafe fn start(machine: &Machine) {
    let WeakHart { hart, context } = match machine.executor {
        None => return,
        Some(Err(error)) => return say!("executor is off: {error}"),
        Some(Ok(weak)) => weak,
    };
    let plic = machine.interrupts.plics.first();
    let lendable = plic.and_then(|plic| Some((plic, *plic.contexts.first()?, hart.mtimecmp?)));
    let Some((plic, from, mtimecmp)) = lendable else {
        return say!("executor is off: the PLIC has no context of the OS");
    };
    EXECUTOR.call_once(|| {
        // SAFETY: by the caller's contract the tree is right; it names these registers.
        let (ipi, deadline, registers) =
            unsafe { (Ipi::new(&hart), Mmio::new(mtimecmp), Mmio::new(plic.base)) };
        Executor {
            ipi,
            deadline: HartDeadline::new(deadline),
            interrupts: SharedContext::new(registers, plic.sources, [from, context]),
            plic: plic.base,
            ask: AskCell::new(),
            has_arrived: AtomicBool::new(false),
        }
    });
}
