//! The page that no loader fills: what one start leaves there for the next.

use poorwill_memory::{PAGE_BYTES, PhysRange};
use poorwill_sleep::{WARM_RESET_WORDS, WarmResetRecord};

type Words = [u64; WARM_RESET_WORDS];

fn place(firmware: PhysRange) -> *mut Words {
    let address = usize::try_from(firmware.end - PAGE_BYTES).expect("an address");
    core::ptr::with_exposed_provenance_mut(address)
}

/// What the last start has left. Asked once, at the start: then this one is the last.
///
/// # Safety
///
/// `firmware` is the firmware's memory, whose last page nothing else uses
/// (firmware.ld), and only one hart runs.
pub(super) unsafe fn find(firmware: PhysRange) -> WarmResetRecord {
    // SAFETY: as the caller says; a page is aligned, and any bits are numbers.
    let words = unsafe { place(firmware).read_volatile() };
    // SAFETY: passed on to the caller.
    unsafe { leave(firmware, WarmResetRecord::Started) };
    WarmResetRecord::from_words(words)
}

/// Leaves word for the next start.
///
/// # Safety
///
/// As [`find`].
pub(super) unsafe fn leave(firmware: PhysRange, start: WarmResetRecord) {
    // SAFETY: as the caller says; a page is aligned.
    unsafe { place(firmware).write_volatile(start.to_words()) };
}
