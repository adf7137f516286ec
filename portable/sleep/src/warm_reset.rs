/// Words of a [`WarmResetRecord`] in memory.
pub const WARM_RESET_WORDS: usize = 5;

/// The first word after a start of the firmware.
const STARTED: u64 = u64::from_le_bytes(*b"started\0");

/// The warm-reset record: notes in memory, which the last start of the machine has left for this
/// one. They survive a reset. On a machine with persistent RAM they survive a power-off, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmResetRecord {
    /// The record's first word is zero: if power-on clears memory, the power has just come on.
    None,
    /// A start has left no attempt, or memory holds other data.
    Started,
    /// A start has woken a snapshot whose trial is not over.
    OnTrial(BootAttempt),
}

/// A snapshot's wake that is on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootAttempt {
    /// The snapshot's generation.
    pub generation: u64,
    /// The time of the wake, in nanoseconds since the Unix epoch.
    pub woken_at_ns: u64,
    /// Duration of the trial in ms: a reset within it means that the wake failed.
    pub trial_ms: u64,
}

impl WarmResetRecord {
    /// Reads the record from words in memory.
    #[must_use]
    pub fn from_words(words: [u64; WARM_RESET_WORDS]) -> Self {
        let [started, attempt @ .., found] = words;
        let [generation, woken_at_ns, trial_ms] = attempt;
        match started {
            0 => WarmResetRecord::None,
            STARTED if found == check(attempt) => WarmResetRecord::OnTrial(BootAttempt {
                generation,
                woken_at_ns,
                trial_ms,
            }),
            _ => WarmResetRecord::Started,
        }
    }

    /// The record as words in memory.
    #[must_use]
    pub fn to_words(self) -> [u64; WARM_RESET_WORDS] {
        match self {
            WarmResetRecord::None => [0; WARM_RESET_WORDS],
            WarmResetRecord::Started => [STARTED, 0, 0, 0, 0],
            WarmResetRecord::OnTrial(BootAttempt {
                generation,
                woken_at_ns,
                trial_ms,
            }) => {
                let attempt = [generation, woken_at_ns, trial_ms];
                [STARTED, generation, woken_at_ns, trial_ms, check(attempt)]
            }
        }
    }

    /// The wake that a reset has ended, if there is one.
    #[must_use]
    pub fn attempt(self) -> Option<BootAttempt> {
        match self {
            WarmResetRecord::OnTrial(attempt) => Some(attempt),
            WarmResetRecord::None | WarmResetRecord::Started => None,
        }
    }
}

/// The load mark: a word in memory beside the record. If it is set, OS memory may hold a part of a
/// sealed image. A load sets it first. So a start that finds it knows that a reset interrupted a
/// load, or the clearing after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMark {
    /// The mark is not set.
    Clear,
    /// The mark is set.
    Set,
}

impl LoadMark {
    /// Reads the mark from its word in memory.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        if word == SET {
            LoadMark::Set
        } else {
            LoadMark::Clear
        }
    }

    /// The mark as a word in memory.
    #[must_use]
    pub fn to_word(self) -> u64 {
        match self {
            LoadMark::Clear => 0,
            LoadMark::Set => SET,
        }
    }
}

/// The load mark's word.
const SET: u64 = u64::from_le_bytes(*b"loading\0");

/// The check word of an attempt, which distinguishes it from other data.
fn check(attempt: [u64; 3]) -> u64 {
    attempt
        .iter()
        .fold(u64::from_le_bytes(*b"on trial"), |check, word| {
            (check ^ word).rotate_left(23).wrapping_mul(5)
        })
}
