//! The power-fail line, and the harts' shared knowledge of its state.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use poorwill_arch::{Mmio, Time, csr, fence, imsic};
use poorwill_devicetree::{Machine, PowerFailError, PowerFailInput};
use poorwill_drivers::PowerFailLine;
use poorwill_hart::interrupt;
use poorwill_image::PowerFails;
use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{CacheError, HoldUpTooShort, StopTime};
use spin::{Mutex, Once};
use thiserror::Error;

use super::caches::Caches;
use super::memory_controller::{Controller, WearError};

/// The identity by which the line interrupts the first hart, in its machine-mode IMSIC file.
const IDENTITY: u32 = 2;

/// Minimum time between two reads of the line's register by [`check`], in ns: a read is slow.
const LOOK_EVERY_NS: u64 = 100_000;

/// The harts' shared knowledge of the line.
struct LineState {
    /// A usable line, and the machine's time.
    found: Once<(&'static PowerFail, &'static Time)>,
    /// `time` when a hart first noticed the power failure; 0 before that.
    since: AtomicU64,
    /// `time` of the last read of the line's register.
    looked: AtomicU64,
    /// Ticks that Stop takes, from the last rehearsal or Stop.
    stop: Mutex<StopTime>,
    /// The line is armed, and no job of [`to_the_end`] runs.
    is_watched: AtomicBool,
}

static LINE: LineState = LineState {
    found: Once::new(),
    since: AtomicU64::new(0),
    looked: AtomicU64::new(0),
    stop: Mutex::new(StopTime {
        before: 0,
        after: 0,
    }),
    is_watched: AtomicBool::new(false),
};

/// Why the power-fail line of the device tree cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum CutObstacle {
    /// The power-fail node is wrong.
    #[error(transparent)]
    Line(#[from] PowerFailError),
    /// The caches cannot be written back in time.
    #[error(transparent)]
    Caches(#[from] CacheError),
    /// The firmware's memory is wear-levelled.
    #[error(transparent)]
    Wear(#[from] WearError),
    /// A cut keeps one domain.
    #[error("the machine has domains")]
    Domains,
}

/// Returns whether a hart has noticed a power failure, so that every hart must stop. This costs one
/// load.
pub(crate) fn noticed() -> bool {
    since() != 0
}

/// `time` when a hart first noticed the power failure.
pub(crate) fn since() -> u64 {
    LINE.since.load(Ordering::Acquire)
}

/// Checks whether the power fails, for long work on harts that the line does not interrupt. It
/// reads the time, and at most every 100 us the line's register.
///
/// # Errors
///
/// [`PowerFails`].
pub(crate) fn check() -> Result<(), PowerFails> {
    if !LINE.is_watched.load(Ordering::Acquire) {
        return Ok(());
    }
    let Some((line, time)) = LINE.found.get() else {
        return Ok(());
    };
    let now = time.ticks();
    let since_look = now.saturating_sub(LINE.looked.load(Ordering::Relaxed));
    if !noticed() && since_look >= time.ticks_in(LOOK_EVERY_NS) {
        LINE.looked.store(now, Ordering::Relaxed);
        if line.line.is_raised() {
            notice();
        }
    }
    match noticed() {
        true => Err(PowerFails),
        false => Ok(()),
    }
}

/// Runs `job` to its end, even if the power fails during it.
pub(crate) fn to_the_end<R>(job: impl FnOnce() -> R) -> R {
    let is_watched = LINE.is_watched.swap(false, Ordering::Relaxed);
    let result = job();
    LINE.is_watched.store(is_watched, Ordering::Release);
    result
}

/// Notes a power failure. Later calls change nothing.
fn notice() {
    let now = time().ticks().max(1);
    let since = &LINE.since;
    _ = since.compare_exchange(0, now, Ordering::AcqRel, Ordering::Relaxed);
}

/// Sets the line, when the machine starts.
pub(super) fn keep(line: &'static PowerFail, time: &'static Time) {
    LINE.found.call_once(|| (line, time));
}

/// The time of a machine with a usable line.
fn time() -> &'static Time {
    LINE.found.get().expect("the line is set").1
}

/// The power-fail line; `None` on a machine without a usable one.
pub(crate) fn line() -> Option<&'static PowerFail> {
    LINE.found.get().map(|(line, _)| *line)
}

/// The power-fail line, with the caches and the memory controller that a cut needs.
#[derive(Debug)]
pub(crate) struct PowerFail {
    line: PowerFailLine<Mmio>,
    hold_up_us: u32,
    caches: Caches,
    controller: Controller,
}

impl PowerFail {
    /// The line in the device tree; `None` if the tree has no line. `memory` is the OS's memory. `fixed`
    /// is in use before the memory controller is set up: the firmware's two ranges, and those into
    /// which the next stage and the tree are loaded.
    ///
    /// # Errors
    ///
    /// [`CutObstacle`].
    ///
    /// # Safety
    ///
    /// `machine` describes this machine.
    pub(crate) unsafe fn find(
        machine: &Machine,
        memory: &[PhysRange],
        fixed: [[PhysRange; 2]; 2],
    ) -> Option<Result<Self, CutObstacle>> {
        if let Some(error) = machine.power_fail_error {
            return Some(Err(error.into()));
        }
        let described = machine.power_fail?;
        // SAFETY: by the caller's contract the tree is right; it names these addresses as
        // controllers.
        let mmio = |address| unsafe { Mmio::new(address) };
        let interrupts = &machine.interrupts;
        let line = match described.input {
            PowerFailInput::Aplic {
                place,
                source,
                hart,
            } => PowerFailLine::Aplic {
                registers: mmio(interrupts.machine_aplics[place].base),
                source,
                hart,
                identity: IDENTITY,
            },
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
        // SAFETY: passed on to the caller.
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

    /// Takes the line from the OS. The line does not interrupt yet.
    pub(crate) fn start(&self) {
        self.line.start();
    }

    /// Arms the line: from now on it interrupts the first hart.
    pub(crate) fn arm(&self) {
        self.line.arm();
        // The latch must be clear before another hart reads it.
        fence::everything();
        LINE.is_watched.store(true, Ordering::Release);
    }

    /// Enables the line's interrupt on the calling hart, which must be the first.
    pub(crate) fn start_hart(&self) {
        if let PowerFailLine::Aplic { identity, .. } = self.line {
            poorwill_drivers::imsic::open_also(&imsic::MachineFile, identity);
        }
    }

    /// Takes the line's interrupt if it is pending. The calling hart must be the first.
    pub(crate) fn take(&self) {
        let is_pending = match self.line {
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
        };
        if is_pending {
            notice();
        }
    }

    /// Returns whether the line is raised. Only valid before the line is armed.
    pub(crate) fn is_raised_unarmed(&self) -> bool {
        self.line.is_raised_unarmed()
    }

    /// Hold-up: microseconds for which the power lasts after the line is raised.
    pub(crate) fn hold_up_us(&self) -> u32 {
        self.hold_up_us
    }

    /// Hold-up in ticks of `time`.
    pub(crate) fn hold_up_ticks(&self) -> u64 {
        time().ticks_in(u64::from(self.hold_up_us) * 1000)
    }

    /// Ticks from the line's rise until all devices must be quiet.
    pub(crate) fn quiet_ticks(&self) -> u64 {
        LINE.stop.lock().quiet(self.hold_up_ticks())
    }

    /// Checks that a Stop of this time ends within the hold-up, and keeps the time. Returns its
    /// microseconds.
    ///
    /// # Errors
    ///
    /// [`HoldUpTooShort`].
    pub(crate) fn keep_stop(&self, stop: StopTime) -> Result<u64, HoldUpTooShort> {
        *LINE.stop.lock() = stop;
        let microseconds = |ticks| time().microseconds_in(ticks);
        stop.decide(self.hold_up_ticks(), self.hold_up_us, microseconds)
    }

    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    pub(crate) fn caches(&self) -> &Caches {
        &self.caches
    }
}
