use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{Page, checksum};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::delay::{DEFAULT_STAGE_DELAY_MS, Delay, DelayError};
use crate::layout::CONFIGURATION_OFFSET;
use crate::mode::SleepMode;
use crate::name::{NAME_BYTES, Name, NotAName};
use crate::rules::SnapshotRules;

/// How the machine that has an area is to sleep; kept in the area's first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// How it sleeps; `None` where nobody has said: as [`SleepMode::Cut`].
    pub mode: Option<SleepMode>,
    /// How long [`SleepMode::Staged`] retains, in ms, from 1 to
    /// [`LONGEST_DELAY_MS`](crate::LONGEST_DELAY_MS).
    pub stage_delay_ms: u64,
    /// How long [`SleepMode::Auto`] retains: the length of a sleep from which on
    /// persisting costs less energy than retaining, in ms, up to
    /// [`LONGEST_DELAY_MS`](crate::LONGEST_DELAY_MS). 0: nobody has said, and the stage delay counts.
    pub break_even_ms: u64,
    /// The next sleep is kept as the machine's snapshot, under this name; behind it
    /// the machine sleeps as `mode` says again.
    pub next_snapshot: Option<Name>,
    /// That snapshot is taken though partitions beside the area cannot be guarded.
    pub accepts_unguarded: bool,
    /// How snapshots wake.
    pub snapshots: SnapshotRules,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            mode: None,
            stage_delay_ms: DEFAULT_STAGE_DELAY_MS,
            break_even_ms: 0,
            next_snapshot: None,
            accepts_unguarded: false,
            snapshots: SnapshotRules::default(),
        }
    }
}

/// Why a configuration cannot be read. The default counts then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigurationError {
    /// The medium failed.
    #[error(
        "the sleep area's configuration cannot be read ({0}): its mode counts as persist, or cut where RAM is persistent"
    )]
    Medium(#[from] MediumError),
    /// Something else altogether.
    #[error("the sleep area's configuration is not Poorwill's{MEND}")]
    NotAConfiguration,
    /// The checksum does not fit.
    #[error("the sleep area's configuration is damaged{MEND}")]
    Damaged,
    /// Written by a Poorwill with another format.
    #[error(
        "the sleep area's configuration has format {found}, this Poorwill reads formats up to {known}{MEND}"
    )]
    Version {
        /// The configuration's format version.
        found: u16,
        /// The newest version read here.
        known: u16,
    },
    /// The checksum fits and the contents do not: a writer's fault.
    #[error("the sleep area's configuration holds something in room that must be zero{MEND}")]
    Invalid,
    /// No mode has this number.
    #[error("the sleep area's configuration has mode {0}, which is none{MEND}")]
    Mode(u32),
    /// A delay is out of range.
    #[error("the sleep area's configuration has {0}{MEND}")]
    Delay(#[from] DelayError),
    /// The next snapshot's name is none.
    #[error("the sleep area's configuration has {0}{MEND}")]
    Name(#[from] NotAName),
}

/// What an unreadable configuration comes to, and what mends it.
const MEND: &str = ": its mode counts as persist, or cut where RAM is persistent, until one is \
                    set anew (`poorwill-guest mode`, `poorwill area set`)";

/// Marks a configuration, for every version.
const MAGIC: [u8; 8] = *b"PWILCONF";

/// The newest version of a configuration that this crate writes and reads.
pub const CONFIGURATION_VERSION: u16 = 4;

/// One that cannot say that a snapshot is taken of partitions that cannot be guarded.
const BEFORE_UNGUARDED: u16 = 3;

/// The oldest: it also cannot say that nobody has chosen a mode, and [`SleepMode::Cut`]. Each
/// configuration is written in the oldest that can say it.
pub const OLDEST_CONFIGURATION_VERSION: u16 = 2;

/// The number in the place of a mode's where nobody has chosen one.
const NO_MODE: u32 = 0;

/// The numbers in the place of the next snapshot's: the next sleep is none; it is one; it is
/// one even of partitions that cannot be guarded.
const NO_NEXT: u32 = 0;
const NEXT_SNAPSHOT: u32 = 1;
const NEXT_UNGUARDED: u32 = 2;

/// Number of the word that holds the checksum, for every version.
const CHECKSUM_WORD: usize = 2;

/// Words of a configuration: 512 bytes, which every device writes whole or not
/// at all.
const WORDS: usize = 64;

/// A configuration as it stands at the start of its page.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawConfiguration {
    magic: [u8; 8],
    format: U16,
    zero: U16,
    mode: U32,
    checksum: U64,
    stage_delay_ms: U64,
    break_even_ms: U64,
    snapshot_tries: U32,
    snapshot_trial_ms: U32,
    snapshot_key_ms: U32,
    /// Whether the next sleep is kept as a snapshot: one of the numbers below.
    next_snapshot: U32,
    next_name: [u8; NAME_BYTES],
    later: [u8; 424],
}

const _: () = assert!(size_of::<RawConfiguration>() == WORDS * 8);

impl Configuration {
    /// The version that it is written in.
    #[must_use]
    pub fn format(&self) -> u16 {
        match self.mode {
            _ if self.next() == NEXT_UNGUARDED => CONFIGURATION_VERSION,
            None | Some(SleepMode::Cut) => BEFORE_UNGUARDED,
            Some(_) => OLDEST_CONFIGURATION_VERSION,
        }
    }

    /// The number for what the next sleep is kept as.
    fn next(&self) -> u32 {
        match (self.next_snapshot, self.accepts_unguarded) {
            (None, _) => NO_NEXT,
            (Some(_), false) => NEXT_SNAPSHOT,
            (Some(_), true) => NEXT_UNGUARDED,
        }
    }

    /// The words for how it sleeps.
    #[must_use]
    pub const fn modes(&self) -> &'static str {
        match self.mode {
            None => "persist, or cut where RAM is persistent",
            Some(SleepMode::Cut) => "cut, or persist where RAM is not persistent",
            Some(mode) => mode.name(),
        }
    }

    /// After how many ms of retaining the machine persists, where it is not cut: 0 is at
    /// once, `None` never.
    #[must_use]
    pub fn stage_after_ms(&self) -> Option<u64> {
        match self.mode {
            None | Some(SleepMode::Cut | SleepMode::Persist) => Some(0),
            Some(SleepMode::Retain) => None,
            Some(SleepMode::Auto) if self.break_even_ms != 0 => Some(self.break_even_ms),
            Some(SleepMode::Staged | SleepMode::Auto) => Some(self.stage_delay_ms),
        }
    }

    /// Whether it can be kept.
    ///
    /// # Errors
    ///
    /// [`DelayError`].
    pub fn check(&self) -> Result<(), DelayError> {
        let delays = [
            (Delay::Stage, self.stage_delay_ms),
            (Delay::BreakEven, self.break_even_ms),
            (Delay::Key, self.snapshots.key_ms.into()),
        ];
        for (delay, ms) in delays {
            if !delay.bounds_ms().contains(&ms) {
                return Err(DelayError { delay, ms });
            }
        }
        Ok(())
    }

    /// Reads it from an area, whose records are left alone.
    ///
    /// # Errors
    ///
    /// See [`ConfigurationError`].
    pub fn read(
        area: &mut impl Medium,
        scratch: &mut Page,
    ) -> Result<Configuration, ConfigurationError> {
        area.read(CONFIGURATION_OFFSET, core::slice::from_mut(scratch))?;
        Configuration::parse(scratch)
    }

    /// Reads the configuration's page.
    ///
    /// # Errors
    ///
    /// See [`ConfigurationError`].
    pub fn parse(page: &Page) -> Result<Configuration, ConfigurationError> {
        let words = &page.0[..WORDS];
        if words.iter().all(|word| *word == 0) {
            return Ok(Configuration::default());
        }
        let raw = RawConfiguration::ref_from_bytes(words.as_bytes())
            .map_err(|_| ConfigurationError::Invalid)?;
        if raw.magic != MAGIC {
            return Err(ConfigurationError::NotAConfiguration);
        }
        if raw.checksum.get() != checksum::of_words_but(words, CHECKSUM_WORD) {
            return Err(ConfigurationError::Damaged);
        }
        let format = raw.format.get();
        if !(OLDEST_CONFIGURATION_VERSION..=CONFIGURATION_VERSION).contains(&format) {
            return Err(ConfigurationError::Version {
                found: format,
                known: CONFIGURATION_VERSION,
            });
        }
        if raw.zero.get() != 0 || raw.later.iter().any(|byte| *byte != 0) {
            return Err(ConfigurationError::Invalid);
        }
        let mode = match raw.mode.get() {
            NO_MODE => None,
            number => Some(
                (SleepMode::ALL
                    .into_iter()
                    .find(|mode| *mode as u32 == number))
                .ok_or(ConfigurationError::Mode(number))?,
            ),
        };
        let configuration = Configuration {
            mode,
            stage_delay_ms: raw.stage_delay_ms.get(),
            break_even_ms: raw.break_even_ms.get(),
            next_snapshot: raw.next_snapshot()?,
            accepts_unguarded: raw.next_snapshot.get() == NEXT_UNGUARDED,
            snapshots: SnapshotRules {
                tries: raw.snapshot_tries.get(),
                trial_ms: raw.snapshot_trial_ms.get(),
                key_ms: raw.snapshot_key_ms.get(),
            },
        };
        if configuration.accepts_unguarded && format < CONFIGURATION_VERSION {
            return Err(ConfigurationError::Invalid);
        }
        if configuration.format() > format {
            return Err(ConfigurationError::Mode(raw.mode.get()));
        }
        configuration.check()?;
        Ok(configuration)
    }

    /// Fills `page` with this configuration.
    pub(crate) fn write(&self, page: &mut Page) {
        *page = Page::ZERO;
        let mut raw = RawConfiguration::new_zeroed();
        raw.magic = MAGIC;
        raw.format = self.format().into();
        raw.mode = self.mode.map_or(NO_MODE, |mode| mode as u32).into();
        raw.stage_delay_ms = self.stage_delay_ms.into();
        raw.break_even_ms = self.break_even_ms.into();
        raw.snapshot_tries = self.snapshots.tries.into();
        raw.snapshot_trial_ms = self.snapshots.trial_ms.into();
        raw.snapshot_key_ms = self.snapshots.key_ms.into();
        raw.next_snapshot = self.next().into();
        if let Some(name) = self.next_snapshot {
            raw.next_name = name.bytes();
        }
        let words = &mut page.0[..WORDS];
        words.as_mut_bytes().copy_from_slice(raw.as_bytes());
        words[CHECKSUM_WORD] = checksum::of_words(words);
    }
}

impl RawConfiguration {
    fn next_snapshot(&self) -> Result<Option<Name>, ConfigurationError> {
        match self.next_snapshot.get() {
            NO_NEXT => Ok(None),
            NEXT_SNAPSHOT | NEXT_UNGUARDED => {
                Ok(Some(Name::from_bytes(self.next_name).ok_or(NotAName)?))
            }
            _ => Err(ConfigurationError::Invalid),
        }
    }
}

#[cfg(test)]
mod tests;
