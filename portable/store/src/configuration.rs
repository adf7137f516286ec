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

/// How a machine sleeps; stored in the sleep area's first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// `None`: not set, which means [`SleepMode::Cut`].
    pub mode: Option<SleepMode>,
    /// How long [`SleepMode::Staged`] retains before it persists, in ms, from 1 to
    /// [`LONGEST_DELAY_MS`](crate::LONGEST_DELAY_MS).
    pub stage_delay_ms: u64,
    /// How long [`SleepMode::Auto`] retains before it persists, in ms, up to
    /// [`LONGEST_DELAY_MS`](crate::LONGEST_DELAY_MS): longer sleeps need less energy if
    /// persisted. 0: not set; the stage delay is used.
    pub break_even_ms: u64,
    /// The next sleep is kept as the machine's snapshot with this name. Later sleeps use
    /// `mode` again.
    pub next_snapshot: Option<Name>,
    /// Take that snapshot even if partitions beside it cannot be guarded.
    pub accepts_unguarded: bool,
    /// The rules for the wakes of snapshots.
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

/// The reason why a configuration cannot be read. The default is used then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigurationError {
    /// The medium failed.
    #[error(
        "the sleep area's configuration cannot be read ({0}): its mode counts as persist, or cut where RAM is persistent"
    )]
    Medium(#[from] MediumError),
    /// The page holds other data.
    #[error("the sleep area's configuration is not Poorwill's{MEND}")]
    NotAConfiguration,
    /// The checksum is wrong.
    #[error("the sleep area's configuration is damaged{MEND}")]
    Damaged,
    /// Another version of Poorwill wrote it.
    #[error(
        "the sleep area's configuration has format {found}, this Poorwill reads formats up to {known}{MEND}"
    )]
    Version {
        /// The configuration's format version.
        found: u16,
        /// The newest version that this crate reads.
        known: u16,
    },
    /// The checksum is right, but reserved bytes are set: a bug of the writer.
    #[error("the sleep area's configuration has reserved bytes that are not zero{MEND}")]
    Invalid,
    /// The mode number is unknown.
    #[error("the sleep area's configuration has the unknown mode {0}{MEND}")]
    Mode(u32),
    /// A delay is out of range.
    #[error("the sleep area's configuration has {0}{MEND}")]
    Delay(#[from] DelayError),
    /// The next snapshot's name is invalid.
    #[error("the sleep area's configuration has an invalid snapshot name{MEND}")]
    Name(#[from] NotAName),
}

/// The effect of an unreadable configuration, and how to repair it.
const MEND: &str = ": its mode counts as persist, or cut where RAM is persistent, until you set \
                    the mode again (`poorwill-guest mode`, `poorwill area set`)";

/// Marks a configuration in every version.
const MAGIC: [u8; 8] = *b"PWILCONF";

/// The newest version of a configuration that this crate writes and reads.
pub const CONFIGURATION_VERSION: u16 = 4;

/// The last version without [`Configuration::accepts_unguarded`].
const BEFORE_UNGUARDED: u16 = 3;

/// The oldest version. It has neither an unset mode nor [`SleepMode::Cut`]. Each
/// configuration is written in the oldest version that can express it.
pub const OLDEST_CONFIGURATION_VERSION: u16 = 2;

/// The mode number of an unset mode.
const NO_MODE: u32 = 0;

/// The values of the "next" field: take no snapshot, take one, or take one even beside
/// partitions that cannot be guarded.
const NO_NEXT: u32 = 0;
const NEXT_SNAPSHOT: u32 = 1;
const NEXT_UNGUARDED: u32 = 2;

/// The index of the checksum's word, in every version.
const CHECKSUM_WORD: usize = 2;

/// The words of a configuration: 512 bytes, which every device writes atomically.
const WORDS: usize = 64;

/// A configuration's bytes on the medium, at the start of its page.
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
    /// [`NO_NEXT`], [`NEXT_SNAPSHOT`] or [`NEXT_UNGUARDED`].
    next_snapshot: U32,
    next_name: [u8; NAME_BYTES],
    later: [u8; 424],
}

const _: () = assert!(size_of::<RawConfiguration>() == WORDS * 8);

impl Configuration {
    /// The format version in which it is written.
    #[must_use]
    pub fn format(&self) -> u16 {
        match self.mode {
            _ if self.next() == NEXT_UNGUARDED => CONFIGURATION_VERSION,
            None | Some(SleepMode::Cut) => BEFORE_UNGUARDED,
            Some(_) => OLDEST_CONFIGURATION_VERSION,
        }
    }

    fn next(&self) -> u32 {
        match (self.next_snapshot, self.accepts_unguarded) {
            (None, _) => NO_NEXT,
            (Some(_), false) => NEXT_SNAPSHOT,
            (Some(_), true) => NEXT_UNGUARDED,
        }
    }

    /// A description of the sleep mode.
    #[must_use]
    pub const fn modes(&self) -> &'static str {
        match self.mode {
            None => "persist, or cut where RAM is persistent",
            Some(SleepMode::Cut) => "cut, or persist where RAM is not persistent",
            Some(mode) => mode.name(),
        }
    }

    /// The time of retaining before the machine persists, in ms, if it is not cut. 0:
    /// persist at once; `None`: never.
    #[must_use]
    pub fn stage_after_ms(&self) -> Option<u64> {
        match self.mode {
            None | Some(SleepMode::Cut | SleepMode::Persist) => Some(0),
            Some(SleepMode::Retain) => None,
            Some(SleepMode::Auto) if self.break_even_ms != 0 => Some(self.break_even_ms),
            Some(SleepMode::Staged | SleepMode::Auto) => Some(self.stage_delay_ms),
        }
    }

    /// Checks that all delays are in range.
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

    /// Reads the configuration from an area without its records.
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

    /// Parses the configuration's page.
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
