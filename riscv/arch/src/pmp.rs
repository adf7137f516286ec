//! The registers of physical memory protection (RISC-V privileged specification,
//! section 3.7.1).

use crate::csr;

/// Entries that a hart can have.
pub const MAX_ENTRIES: usize = 64;

/// Entries whose configuration one register holds.
pub const ENTRIES_IN_A_WORD: usize = 8;

/// Configuration registers that a hart can have.
pub const MAX_CONFIGS: usize = MAX_ENTRIES / ENTRIES_IN_A_WORD;

/// Writes a register and gives what it then reads; `None` where the hart lacks it.
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

/// On a hart of 64 bits there are only those with even numbers.
static CONFIGS: [Register; MAX_CONFIGS] = registers!(csr::PMPCFG0, 2: 0 1 2 3 4 5 6 7);

/// Writes `pmpaddr` of an entry and gives what it then reads; `None` where the hart has
/// no such entry.
///
/// # Safety
///
/// No OS runs on this hart, and no entry is locked: then entries bind S-mode and U-mode
/// only.
///
/// # Panics
///
/// When `entry` is [`MAX_ENTRIES`] or more.
pub unsafe fn set_address(entry: usize, value: u64) -> Option<u64> {
    ADDRESSES[entry](value)
}

/// Writes the `word`th configuration register, of [`ENTRIES_IN_A_WORD`] entries, and
/// gives what it then reads; `None` where the hart lacks it.
///
/// # Safety
///
/// As [`set_address`]; no bit of `value` locks an entry.
///
/// # Panics
///
/// When `word` is [`MAX_CONFIGS`] or more.
pub unsafe fn set_config(word: usize, value: u64) -> Option<u64> {
    CONFIGS[word](value)
}
