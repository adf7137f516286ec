/// Words that a [`WarmResetRecord`] takes in memory.
pub const WARM_RESET_WORDS: usize = 5;

/// The first word, once the firmware has started.
const STARTED: u64 = u64::from_le_bytes(*b"started\0");

/// The warm-reset record, which the last start of the machine has left in memory for
/// this one. It is there again at a reset, and on a machine whose RAM outlives the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmResetRecord {
    /// The word of a start is zero: where power-on clears memory, the power has just
    /// come on.
    None,
    /// There was one, or memory holds something else.
    Started,
    /// There was one, and it woke a snapshot that was still on trial.
    OnTrial(BootAttempt),
}

/// A snapshot's wake that has still to prove itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootAttempt {
    /// The snapshot's generation.
    pub generation: u64,
    /// When it was woken, in nanoseconds since the Unix epoch.
    pub woken_at_ns: u64,
    /// For how many ms a reset says that the wake has failed.
    pub trial_ms: u64,
}

impl WarmResetRecord {
    /// What memory holds of it.
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

    /// What memory is to hold of it.
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

    /// The attempt that a reset has ended.
    #[must_use]
    pub fn attempt(self) -> Option<BootAttempt> {
        match self {
            WarmResetRecord::OnTrial(attempt) => Some(attempt),
            WarmResetRecord::None | WarmResetRecord::Started => None,
        }
    }
}

/// The load mark: a word in memory, beside the record. It says that OS memory may hold a part
/// of a sealed image. It is set during a load, so a reset that finds it has cut a load short,
/// or the clearing after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMark {
    /// It is not there.
    Clear,
    /// It is.
    Set,
}

impl LoadMark {
    /// What memory holds of it.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        if word == SET {
            LoadMark::Set
        } else {
            LoadMark::Clear
        }
    }

    /// What memory is to hold of it.
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

/// Tells an attempt from other bytes in memory.
fn check(attempt: [u64; 3]) -> u64 {
    attempt
        .iter()
        .fold(u64::from_le_bytes(*b"on trial"), |check, word| {
            (check ^ word).rotate_left(23).wrapping_mul(5)
        })
}
