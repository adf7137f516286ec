/// Words of a [`ResetRow`] in memory.
pub const RESET_ROW_WORDS: usize = 2;

/// The most resets in a row because of errors.
pub const MAX_RESETS: u64 = 5;

/// An error later than this after the start begins a new row, in ms: the machine has worked.
const ROW_MS: u64 = 10 * 60_000;

/// The resets in a row by which the firmware has answered errors: notes in memory, beside the
/// warm-reset record. A reset may help against an error, but not for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetRow(u64);

impl ResetRow {
    /// Reads the row from words in memory. Other data is an empty row.
    #[must_use]
    pub fn from_words([count, found]: [u64; RESET_ROW_WORDS]) -> Self {
        match found == check(count) && count <= MAX_RESETS {
            true => ResetRow(count),
            false => ResetRow::default(),
        }
    }

    /// The row as words in memory.
    #[must_use]
    pub fn to_words(self) -> [u64; RESET_ROW_WORDS] {
        [self.0, check(self.0)]
    }

    /// The row with a reset because of an error `uptime_ms` after the start; `None`: the machine must
    /// not be reset once more.
    #[must_use]
    pub fn with_reset(self, uptime_ms: u64) -> Option<Self> {
        match self.0 {
            _ if uptime_ms >= ROW_MS => Some(ResetRow(1)),
            count if count < MAX_RESETS => Some(ResetRow(count + 1)),
            _ => None,
        }
    }
}

/// The check word of a count, which distinguishes it from other data.
fn check(count: u64) -> u64 {
    u64::from_le_bytes(*b"resets\0\0") ^ count.rotate_left(48)
}
