//! The power-fail line, and the caches that are to be written back when it is raised.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use poorwill_arch::{Mmio, csr, fence, imsic};
use poorwill_devicetree::{Machine, PowerFailInput};
use poorwill_drivers::PowerFailLine;
use poorwill_hart::interrupt;
use poorwill_medium::Clock;
use poorwill_memory::PhysRange;
use poorwill_sleep::cut::CacheError;
use spin::Once;
use thiserror::Error;

use super::caches::Caches;
use super::memory_controller::{Controller, WearError};
use super::platform;

/// The identity by which the line interrupts the first hart, in its machine-mode IMSIC file.
const IDENTITY: u32 = 2;

/// The power fails, and every hart is to stop.
static IS_FAILING: AtomicBool = AtomicBool::new(false);

/// `time` when that was noticed.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// The line interrupts the machine.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

/// `time` when some hart has last looked at the line itself.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// What is under way is done to its end, whatever comes.
static TO_THE_END: AtomicBool = AtomicBool::new(false);

/// How often harts that do not let themselves be interrupted look at the line, in ns: an
/// access to a register is not to be much of what they do.
const LOOK_EVERY_NS: u64 = 100_000;

/// What tells the other harts that the power fails.
static TELL_OTHERS: Once<fn()> = Once::new();

/// Has `tell` tell the others, where a hart finds out by a look at the line.
pub(crate) fn tell_by(tell: fn()) {
    TELL_OTHERS.call_once(|| tell);
}

/// Why no cut is to be taken on a machine with such a line.
static REFUSED: Once<CutObstacle> = Once::new();

/// What keeps a machine from being cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum CutObstacle {
    /// Its caches cannot be written back.
    #[error(transparent)]
    Caches(#[from] CacheError),
    /// Its memory's wear is levelled where it must not be.
    #[error(transparent)]
    Wear(#[from] WearError),
}

/// Why none is.
pub(crate) fn refused() -> Option<CutObstacle> {
    REFUSED.get().copied()
}

/// The line that the tree names, on a machine whose caches can be written back, whose OS has
/// this memory. `fixed` is what is there before the memory controller is set up: the firmware's
/// two ranges, and what is loaded for the next stage.
///
/// # Safety
///
/// `machine` describes this machine.
pub(super) unsafe fn find(
    machine: &Machine,
    memory: &[PhysRange],
    fixed: [[PhysRange; 2]; 2],
) -> Option<PowerFail> {
    // SAFETY: passed on to the caller.
    let line = unsafe { PowerFail::new(machine, memory, fixed) }?;
    line.inspect_err(|error| _ = REFUSED.call_once(|| *error))
        .ok()
}

/// Whether every hart is to stop.
pub(crate) fn is_failing() -> bool {
    IS_FAILING.load(Ordering::Acquire)
}

/// Whether long work in machine mode may go on, for harts that do not let the line interrupt
/// them meanwhile. It costs a look at the time, and now and then one at the line.
pub(crate) fn goes_on() -> bool {
    if TO_THE_END.load(Ordering::Relaxed) || !IS_ARMED.load(Ordering::Acquire) {
        return true;
    }
    let time = &platform().time;
    let now = time.ticks();
    let since = now.saturating_sub(LOOKED.load(Ordering::Relaxed));
    if !is_failing() && since >= time.ticks_in(LOOK_EVERY_NS) {
        LOOKED.store(now, Ordering::Relaxed);
        let line = platform().power_fail.as_ref();
        if line.is_some_and(PowerFail::is_raised) && notice() {
            TELL_OTHERS.get().into_iter().for_each(|tell| tell());
        }
    }
    !is_failing()
}

/// Runs `job`, which is to be done to its end whether the power fails or not.
pub(crate) fn to_the_end<R>(job: impl FnOnce() -> R) -> R {
    TO_THE_END.store(true, Ordering::Relaxed);
    let result = job();
    TO_THE_END.store(false, Ordering::Relaxed);
    result
}

/// Notices that the power fails; `false` for whoever is not the first.
fn notice() -> bool {
    static IS_NOTICED: AtomicBool = AtomicBool::new(false);
    if IS_NOTICED.swap(true, Ordering::Relaxed) {
        return false;
    }
    SINCE.store(platform().time.ticks(), Ordering::Relaxed);
    IS_FAILING.store(true, Ordering::Release);
    true
}

/// The machine's clock, for waits that end as the power fails.
#[derive(Clone, Debug)]
pub(crate) struct WaitClock<T>(pub(crate) T);

impl<T: Clock> Clock for WaitClock<T> {
    fn milliseconds(&self) -> u64 {
        self.0.milliseconds()
    }

    fn power_fails(&self) -> bool {
        !goes_on()
    }
}

/// `time` when it was noticed that the power fails.
pub(crate) fn since() -> u64 {
    SINCE.load(Ordering::Relaxed)
}

/// The line.
#[derive(Debug)]
pub(crate) struct PowerFail {
    line: PowerFailLine<Mmio>,
    hold_up_us: u32,
    caches: Caches,
    controller: Controller,
}

impl PowerFail {
    /// The line that the tree names; as [`find`]. `None`: there is no line.
    ///
    /// # Errors
    ///
    /// [`CutObstacle`].
    ///
    /// # Safety
    ///
    /// `machine` describes this machine.
    unsafe fn new(
        machine: &Machine,
        memory: &[PhysRange],
        fixed: [[PhysRange; 2]; 2],
    ) -> Option<Result<Self, CutObstacle>> {
        let described = machine.power_fail?;
        // SAFETY: the tree, which is right, says the caller, names these addresses as
        // controllers of this machine.
        let mmio = |address| unsafe { Mmio::new(address) };
        let interrupts = &machine.interrupts;
        let line = match described.input {
            PowerFailInput::Aplic { place, source } => {
                let first = machine.harts.first()?.machine_imsic?;
                let files = interrupts.machine_imsic?;
                PowerFailLine::Aplic {
                    registers: mmio(interrupts.machine_aplics[place].base),
                    source,
                    hart: ((first - files.base) >> (12 + files.guest_bits)) as u32,
                    identity: IDENTITY,
                }
            }
            PowerFailInput::Plic {
                place,
                source,
                context,
            } => PowerFailLine::Plic {
                registers: mmio(interrupts.plics[place].base),
                source,
                context,
            },
        };
        let hold_up_us = described.hold_up_us;
        // SAFETY: passed on to the caller.
        let caches = unsafe { Caches::new(machine, memory, fixed[0][1], hold_up_us) };
        // SAFETY: likewise.
        let controller = unsafe { Controller::new(machine, fixed.into_iter().flatten()) };
        Some(caches.map_err(CutObstacle::from).and_then(|caches| {
            Ok(PowerFail {
                line,
                hold_up_us,
                caches,
                controller: controller?,
            })
        }))
    }

    /// Takes it from the OS.
    pub(super) fn start(&self) {
        self.line.start();
    }

    /// Lets it interrupt the first hart.
    pub(crate) fn arm(&self) {
        self.line.arm();
        // What was latched before is cleared by then: other harts look from here on.
        fence::everything();
        IS_ARMED.store(true, Ordering::Release);
    }

    /// Has the calling hart, the first, take its interrupt.
    pub(crate) fn start_hart(&self) {
        if let PowerFailLine::Aplic { identity, .. } = self.line {
            poorwill_drivers::imsic::open_also(&imsic::MachineFile, identity);
        }
    }

    /// Takes its interrupt, if it is pending on the calling hart, the first.
    fn take(&self) -> bool {
        match self.line {
            PowerFailLine::Aplic { identity, .. } => {
                let is_pending = imsic::pending_machine_interrupt() == identity.into();
                if is_pending {
                    imsic::claim_machine_interrupt();
                }
                is_pending
            }
            PowerFailLine::Plic { .. } => {
                let pending = csr::read::<{ csr::MIP }>();
                pending & interrupt::MEI != 0 && self.line.claim()
            }
        }
    }

    /// Looks whether it interrupts the calling hart, the first, for the first time: then
    /// all others are to be told.
    pub(crate) fn begins(&self) -> bool {
        self.take() && notice()
    }

    /// Whether it is raised now; before it is armed.
    pub(crate) fn is_raised_unarmed(&self) -> bool {
        self.line.is_raised_unarmed()
    }

    /// Whether it is raised, or was since it was armed.
    fn is_raised(&self) -> bool {
        self.line.is_raised()
    }

    /// Microseconds for which the power lasts from then on.
    pub(crate) fn hold_up_us(&self) -> u32 {
        self.hold_up_us
    }

    /// How long the power lasts from then on, in ticks of `time`.
    pub(crate) fn hold_up_ticks(&self) -> u64 {
        platform().time.ticks_in(u64::from(self.hold_up_us) * 1000)
    }

    /// How much of that devices have to be quiet, in ticks of `time` from the line on.
    pub(crate) fn quiet_ticks(&self) -> u64 {
        self.hold_up_ticks() / 4 * 3
    }

    /// The controller of the machine's memory.
    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Writes back what caches the calling hart has to itself; whether it can.
    pub(crate) fn write_back_own(&self) -> bool {
        self.caches.write_back_own()
    }

    /// Writes back all that is left once the other harts have written back their own; whether
    /// it can.
    pub(crate) fn write_back_rest(&self) -> bool {
        self.caches.write_back_rest()
    }

    /// Writes back a few bytes that the calling hart has stored.
    pub(crate) fn write_back(&self, bytes: PhysRange) {
        self.caches.write_back(bytes);
    }
}
