//! The registers of physical memory protection (RISC-V privileged specification,
//! section 3.7.1).

use crate::csr;

/// Maximum number of entries of a hart.
pub const MAX_ENTRIES: usize = 64;

/// Writes a register and returns its new value; `None` if the hart lacks it.
type Register = fn(u64) -> Option<u64>;

macro_rules! registers {
    ($base:path, $step:literal: $($index:literal)*) => {
        [$(|value| {
            // SAFETY: passed on to the callers below.
            let is_there = unsafe { csr::try_write::<{ $base + $step * $index }>(value) };
            is_there.then(|| csr::try_read::<{ $base + $step * $index }>())?
        }),*]
    };
}

static ADDRESSES: [Register; MAX_ENTRIES] = registers!(csr::PMPADDR0, 1:
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);

/// RV64 has only the registers with even numbers.
static CONFIGS: [Register; MAX_ENTRIES / 8] = registers!(csr::PMPCFG0, 2: 0 1 2 3 4 5 6 7);

/// Writes an entry's `pmpaddr` and returns its new value; `None` if the hart lacks the entry.
///
/// # Safety
///
/// No OS runs on this hart. No entry is locked, so entries bind only S-mode and U-mode.
///
/// # Panics
///
/// When `entry` is [`MAX_ENTRIES`] or more.
pub unsafe fn set_address(entry: usize, value: u64) -> Option<u64> {
    ADDRESSES[entry](value)
}

/// Writes the configuration register `word`, which holds eight entries. Returns its new
/// value; `None` if the hart lacks it.
///
/// # Safety
///
/// As for [`set_address`]; no bit of `value` locks an entry.
///
/// # Panics
///
/// When `word` is 8 or more.
pub unsafe fn set_config(word: usize, value: u64) -> Option<u64> {
    CONFIGS[word](value)
}
