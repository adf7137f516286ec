//! A page in which one start leaves records for the next. No loader writes to it.

use poorwill_arch::{cache, fence};
use poorwill_log::{LOG_BYTES, Log};
use poorwill_memory::{PAGE_BYTES, PhysRange};
use poorwill_sleep::{
    BootAttempt, LoadMark, RESET_ROW_WORDS, ResetRow, WARM_RESET_WORDS, WarmResetRecord,
};

use super::Platform;

unsafe extern "C" {
    #[link_name = "FIRMWARE_BASE"]
    static FIRMWARE_BASE: u8;
    #[link_name = "FIRMWARE_SIZE"]
    static FIRMWARE_SIZE: u8;
}

/// The range that the firmware was loaded into (firmware.ld).
pub(crate) fn firmware_range() -> PhysRange {
    let [base, size] = [&raw const FIRMWARE_BASE, &raw const FIRMWARE_SIZE];
    PhysRange::new(base.addr() as u64, size.addr() as u64)
}

type Words = [u64; WARM_RESET_WORDS];

fn place(firmware: PhysRange) -> *mut Words {
    let address = usize::try_from(firmware.end - PAGE_BYTES).expect("an address");
    core::ptr::with_exposed_provenance_mut(address)
}

/// Index of the load mark's word in the page; the warm-reset record lies before it.
const MARK_WORD: usize = 32;

const _: () = assert!(MARK_WORD >= WARM_RESET_WORDS);

fn mark_place(firmware: PhysRange) -> *mut u64 {
    place(firmware).cast::<u64>().wrapping_add(MARK_WORD)
}

/// Index of the first word of the row of resets, after the mark.
const ROW_WORD: usize = MARK_WORD + 1;

fn row_place(firmware: PhysRange) -> *mut [u64; RESET_ROW_WORDS] {
    place(firmware).cast::<u64>().wrapping_add(ROW_WORD).cast()
}

/// Index of the first of the two words of the record of cuts, after the row: a mark, and an address.
const CUT_RECORD_WORD: usize = ROW_WORD + RESET_ROW_WORDS;

/// The mark: these words were left by a start.
const CUT_RECORD: u64 = u64::from_le_bytes(*b"CUTRECRD");

fn cut_record_place(firmware: PhysRange) -> *mut [u64; 2] {
    let place = place(firmware).cast::<u64>();
    place.wrapping_add(CUT_RECORD_WORD).cast()
}

/// Offset of the log in the page, after these.
const LOG_OFFSET: u64 = PAGE_BYTES - LOG_BYTES as u64;

const _: () = assert!(LOG_OFFSET as usize >= (CUT_RECORD_WORD + 2) * size_of::<u64>());

/// The log that the last start left.
///
/// # Safety
///
/// As [`find`], and this is called once.
pub(super) unsafe fn log(firmware: PhysRange) -> &'static mut Log {
    let page = place(firmware).cast::<u8>();
    let place = page.wrapping_add(LOG_OFFSET as usize);
    // SAFETY: by the caller's contract; nothing else refers to that part of the page, and any bits
    // are a log.
    unsafe { &mut *place.cast::<Log>() }
}

/// The load mark that the last start left.
///
/// # Safety
///
/// As [`find`].
pub(crate) unsafe fn load_mark(firmware: PhysRange) -> LoadMark {
    // SAFETY: by the caller's contract; any bits are a number.
    LoadMark::from_word(unsafe { mark_place(firmware).read_volatile() })
}

/// `cache_block` is for [`cache::write_back`].
fn write_back(bytes: PhysRange, cache_block: Option<u64>) {
    if let Some(block) = cache_block {
        cache::write_back(bytes, block);
    }
    fence::everything();
}

/// The resets in a row because of errors.
pub(super) fn reset_row() -> ResetRow {
    let place = row_place(firmware_range());
    // SAFETY: the firmware's own page; at most one hart ends the machine. Words are aligned, and any
    // bits are numbers.
    ResetRow::from_words(unsafe { place.read_volatile() })
}

/// Leaves the row of resets for the next start.
pub(super) fn leave_reset_row(row: ResetRow) {
    let place = row_place(firmware_range());
    // SAFETY: as in `reset_row`.
    unsafe { place.write_volatile(row.to_words()) };
    fence::everything();
}

/// The last start's record. Called once: it replaces the record by this start's.
///
/// # Safety
///
/// `firmware` is the firmware's memory, whose last page nothing else uses
/// (firmware.ld), and only one hart runs.
pub(crate) unsafe fn find(firmware: PhysRange) -> WarmResetRecord {
    // SAFETY: by the caller's contract; a page is aligned, and any bits are numbers.
    let words = unsafe { place(firmware).read_volatile() };
    // SAFETY: passed on to the caller.
    unsafe { leave(firmware, WarmResetRecord::Started) };
    WarmResetRecord::from_words(words)
}

/// Leaves a record for the next start.
///
/// # Safety
///
/// As [`find`].
unsafe fn leave(firmware: PhysRange, start: WarmResetRecord) {
    // SAFETY: by the caller's contract; a page is aligned.
    unsafe { place(firmware).write_volatile(start.to_words()) };
}

impl Platform {
    /// Sets the load mark, after all earlier writes. The mark is in memory, not only in a cache,
    /// before all later writes.
    pub(crate) fn set_load_mark(&self, mark: LoadMark) {
        let place = mark_place(self.firmware[0]);
        fence::everything();
        // SAFETY: the firmware's own page; only the hart that wakes the machine uses it. A page is
        // aligned.
        unsafe { place.write_volatile(mark.to_word()) };
        let bytes = PhysRange::new(place.addr() as u64, size_of::<u64>() as u64);
        write_back(bytes, self.cache_block);
    }

    /// Returns whether the last start of an OS had its record of cuts at `base`. A start by a
    /// version that leaves no such words counts as one.
    pub(crate) fn had_cut_record(&self, base: u64) -> bool {
        let place = cut_record_place(self.firmware[0]);
        // SAFETY: as in `set_load_mark`; any bits are numbers.
        let [mark, last] = unsafe { place.read_volatile() };
        mark != CUT_RECORD || last == base
    }

    /// Leaves the place of this start's record of cuts for the next start; 0: it has none. The words
    /// are in memory, not only in a cache, before all later writes.
    pub(crate) fn leave_cut_record(&self, base: u64) {
        let place = cut_record_place(self.firmware[0]);
        // SAFETY: as in `set_load_mark`.
        unsafe { place.write_volatile([CUT_RECORD, base]) };
        let bytes = PhysRange::new(place.addr() as u64, size_of_val(&[0, base]) as u64);
        write_back(bytes, self.cache_block);
    }

    /// Records a snapshot's wake, in case of a reset.
    pub(crate) fn begin_attempt(&self, attempt: BootAttempt) {
        // SAFETY: the firmware's own memory; only the hart that wakes the machine uses it.
        unsafe { leave(self.firmware[0], WarmResetRecord::OnTrial(attempt)) }
    }
}
