//! What memory holds when the firmware starts.

use poorwill_devicetree::Machine;
use poorwill_memory::{PAGE_BYTES, PhysRange};
use poorwill_sleep::BootAttempt;

/// The warm-reset record: what the firmware leaves in memory for its next start. It is
/// there after a reset, and where RAM outlives the power (a file behind QEMU's memory).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct WarmResetRecord {
    started: u64,
    /// A [`BootAttempt`]: generation, time of its wake, length of its trial.
    attempt: [u64; 3],
    /// Belongs to the attempt: [`check`].
    check: u64,
}

const STARTED: u64 = u64::from_le_bytes(*b"started\0");

/// What tells an attempt from whatever else memory may hold.
fn check(attempt: &[u64; 3]) -> u64 {
    attempt
        .iter()
        .fold(u64::from_le_bytes(*b"on trial"), |check, word| {
            (check ^ word).rotate_left(23).wrapping_mul(5)
        })
}

/// What a start finds in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// OS memory holds nothing but zeros and what was loaded for this start: the
    /// machine promises so for the moment when its power comes on, and this is that
    /// moment.
    pub(super) is_clear: bool,
    /// The machine was reset, and it was a snapshot that woke before.
    pub(super) attempt: Option<BootAttempt>,
}

fn place(firmware: PhysRange) -> *mut WarmResetRecord {
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
    let record = unsafe {
        let record = place.read_volatile();
        place.write_volatile(WarmResetRecord {
            started: STARTED,
            attempt: [0; 3],
            check: 0,
        });
        record
    };
    let is_attempt = record.started == STARTED && record.check == check(&record.attempt);
    let [generation, woken_at_ns, trial_ms] = record.attempt;
    Found {
        is_clear: machine.starts_clear && record.started == 0,
        attempt: is_attempt.then_some(BootAttempt {
            generation,
            woken_at_ns,
            trial_ms,
        }),
    }
}

/// Records that a snapshot is about to wake, for the case that its OS is reset.
///
/// # Safety
///
/// As [`find`].
pub(super) unsafe fn write(firmware: PhysRange, attempt: BootAttempt) {
    let attempt = [attempt.generation, attempt.woken_at_ns, attempt.trial_ms];
    let record = WarmResetRecord {
        started: STARTED,
        check: check(&attempt),
        attempt,
    };
    // SAFETY: as the caller says; a page is aligned.
    unsafe { place(firmware).write_volatile(record) };
}
