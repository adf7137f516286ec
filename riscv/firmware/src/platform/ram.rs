//! What memory holds when the firmware starts.

use poorwill_devicetree::Machine;
use poorwill_memory::{PAGE_BYTES, PhysRange};

/// What the firmware leaves in memory for its next start. It is there again at a
/// reset, and where RAM outlives the power (a file behind QEMU's memory).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Left {
    started: u64,
    trial: Trial,
    /// Belongs to the trial: [`Left::check`].
    check: u64,
}

/// A snapshot's wake that has still to prove itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Trial {
    /// The snapshot's generation.
    pub(crate) generation: u64,
    /// When it was woken, in nanoseconds since the Unix epoch.
    pub(crate) woken_at_ns: u64,
    /// How long the trial lasts, in ms.
    pub(crate) trial_ms: u64,
}

const STARTED: u64 = u64::from_le_bytes(*b"started\0");

const NO_TRIAL: Trial = Trial {
    generation: 0,
    woken_at_ns: 0,
    trial_ms: 0,
};

impl Left {
    /// What tells a trial from whatever else memory may hold.
    fn check(trial: &Trial) -> u64 {
        [trial.generation, trial.woken_at_ns, trial.trial_ms]
            .into_iter()
            .fold(u64::from_le_bytes(*b"on trial"), |check, word| {
                (check ^ word).rotate_left(23).wrapping_mul(5)
            })
    }
}

/// What a start finds in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// OS memory holds nothing but zeros and what was loaded for this start: the
    /// machine promises so for the moment when its power comes on, and this is that
    /// moment.
    pub(super) is_clear: bool,
    /// The machine was reset, and it was a snapshot that woke before.
    pub(super) trial: Option<Trial>,
}

fn place(firmware: PhysRange) -> *mut Left {
    let address = usize::try_from(firmware.end - PAGE_BYTES).expect("an address");
    core::ptr::with_exposed_provenance_mut(address)
}

/// What memory holds. Asked once, at the start.
///
/// # Safety
///
/// `firmware` is the firmware's memory, whose last page nothing else uses
/// (firmware.ld), and only one hart runs.
pub(super) unsafe fn find(machine: &Machine, firmware: PhysRange) -> Found {
    let place = place(firmware);
    // SAFETY: as the caller says; a page is aligned, and any bits are numbers.
    let left = unsafe {
        let left = place.read_volatile();
        place.write_volatile(Left {
            started: STARTED,
            trial: NO_TRIAL,
            check: 0,
        });
        left
    };
    let is_trial = left.started == STARTED && left.check == Left::check(&left.trial);
    Found {
        is_clear: machine.starts_clear && left.started == 0,
        trial: is_trial.then_some(left.trial),
    }
}

/// Leaves word that a snapshot is about to wake, for the case that its OS is reset.
///
/// # Safety
///
/// As [`find`].
pub(super) unsafe fn leave(firmware: PhysRange, trial: Trial) {
    let left = Left {
        started: STARTED,
        trial,
        check: Left::check(&trial),
    };
    // SAFETY: as the caller says; a page is aligned.
    unsafe { place(firmware).write_volatile(left) };
}
