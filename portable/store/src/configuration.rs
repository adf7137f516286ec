use poorwill_medium::MediumError;
use poorwill_memory::{Page, checksum};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::delay::{DEFAULT_STAGE_DELAY_MS, Delay, DelayError};
use crate::mode::SleepMode;
use crate::name::{NAME_BYTES, Name, NotAName};
use crate::rules::SnapshotRules;

/// How the machine that has an area is to sleep; kept in the area's first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// How it sleeps.
    pub mode: SleepMode,
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
    /// How snapshots wake.
    pub snapshots: SnapshotRules,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            mode: SleepMode::Persist,
            stage_delay_ms: DEFAULT_STAGE_DELAY_MS,
            break_even_ms: 0,
            next_snapshot: None,
            snapshots: SnapshotRules::default(),
        }
    }
}

/// Why a configuration cannot be read. The default counts then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigurationError {
    /// The medium failed.
    #[error("the sleep area's configuration cannot be read ({0}): its mode counts as persist")]
    Medium(#[from] MediumError),
    /// Something else altogether.
    #[error("the sleep area's configuration is not Poorwill's{MEND}")]
    NotAConfiguration,
    /// The checksum does not fit.
    #[error("the sleep area's configuration is damaged{MEND}")]
    Damaged,
    /// Written by a Poorwill with another format.
    #[error(
        "the sleep area's configuration has format {found}, this Poorwill reads format {known}{MEND}"
    )]
    Version {
        /// The configuration's format version.
        found: u16,
        /// The version read here.
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
const MEND: &str = ": its mode counts as persist until one is set anew \
                    (`poorwill-guest mode`, `poorwill area set`)";

/// Marks a configuration, for every version.
const MAGIC: [u8; 8] = *b"PWILCONF";

/// The version of a configuration that this crate writes, and the only one it reads.
pub const CONFIGURATION_VERSION: u16 = 2;

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
    /// Whether the next sleep is kept as a snapshot.
    next_snapshot: U32,
    next_name: [u8; NAME_BYTES],
    later: [u8; 424],
}

const _: () = assert!(size_of::<RawConfiguration>() == WORDS * 8);

impl Configuration {
    /// After how many ms of retaining the machine persists: 0 is at once, `None`
    /// never.
    #[must_use]
    pub fn stage_after_ms(&self) -> Option<u64> {
        match self.mode {
            SleepMode::Persist => Some(0),
            SleepMode::Retain => None,
            SleepMode::Staged => Some(self.stage_delay_ms),
            SleepMode::Auto if self.break_even_ms != 0 => Some(self.break_even_ms),
            SleepMode::Auto => Some(self.stage_delay_ms),
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
        if raw.format.get() != CONFIGURATION_VERSION {
            return Err(ConfigurationError::Version {
                found: raw.format.get(),
                known: CONFIGURATION_VERSION,
            });
        }
        if raw.zero.get() != 0 || raw.later.iter().any(|byte| *byte != 0) {
            return Err(ConfigurationError::Invalid);
        }
        let mode = SleepMode::ALL
            .into_iter()
            .find(|mode| *mode as u32 == raw.mode.get())
            .ok_or(ConfigurationError::Mode(raw.mode.get()))?;
        let configuration = Configuration {
            mode,
            stage_delay_ms: raw.stage_delay_ms.get(),
            break_even_ms: raw.break_even_ms.get(),
            next_snapshot: raw.next_snapshot()?,
            snapshots: SnapshotRules {
                tries: raw.snapshot_tries.get(),
                trial_ms: raw.snapshot_trial_ms.get(),
                key_ms: raw.snapshot_key_ms.get(),
            },
        };
        configuration.check()?;
        Ok(configuration)
    }

    /// Fills `page` with this configuration.
    pub(crate) fn write(&self, page: &mut Page) {
        *page = Page::ZERO;
        let mut raw = RawConfiguration::new_zeroed();
        raw.magic = MAGIC;
        raw.format = CONFIGURATION_VERSION.into();
        raw.mode = (self.mode as u32).into();
        raw.stage_delay_ms = self.stage_delay_ms.into();
        raw.break_even_ms = self.break_even_ms.into();
        raw.snapshot_tries = self.snapshots.tries.into();
        raw.snapshot_trial_ms = self.snapshots.trial_ms.into();
        raw.snapshot_key_ms = self.snapshots.key_ms.into();
        if let Some(name) = self.next_snapshot {
            raw.next_snapshot = 1.into();
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
            0 => Ok(None),
            1 => Ok(Some(Name::from_bytes(self.next_name).ok_or(NotAName)?)),
            _ => Err(ConfigurationError::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;
    use crate::delay::{LONGEST_DELAY_MS, LONGEST_KEY_MS};

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(CONFIGURATION_VERSION, 2);
        assert_eq!(&MAGIC, b"PWILCONF");
        assert_eq!(CHECKSUM_WORD * 8, offset_of!(RawConfiguration, checksum));
        let offsets = [
            (offset_of!(RawConfiguration, magic), 0),
            (offset_of!(RawConfiguration, format), 8),
            (offset_of!(RawConfiguration, zero), 10),
            (offset_of!(RawConfiguration, mode), 12),
            (offset_of!(RawConfiguration, checksum), 16),
            (offset_of!(RawConfiguration, stage_delay_ms), 24),
            (offset_of!(RawConfiguration, break_even_ms), 32),
            (offset_of!(RawConfiguration, snapshot_tries), 40),
            (offset_of!(RawConfiguration, snapshot_trial_ms), 44),
            (offset_of!(RawConfiguration, snapshot_key_ms), 48),
            (offset_of!(RawConfiguration, next_snapshot), 52),
            (offset_of!(RawConfiguration, next_name), 56),
            (offset_of!(RawConfiguration, later), 88),
            (size_of::<RawConfiguration>(), 512),
        ];
        for (number, (found, right)) in offsets.into_iter().enumerate() {
            assert_eq!(found, right, "line {number}");
        }
    }

    /// Every byte of one configuration.
    #[test]
    fn the_bytes_are_pinned() {
        let mut page = Page([!0; 512]);
        let configuration = Configuration {
            mode: SleepMode::Staged,
            stage_delay_ms: 0x0102_0304,
            break_even_ms: 0x0506_0708,
            next_snapshot: Some("kiosk".parse().unwrap()),
            snapshots: SnapshotRules {
                tries: 0x11,
                trial_ms: 0x12,
                key_ms: 0x13,
            },
        };
        configuration.write(&mut page);
        let mut words = [0; 512];
        words[..8].copy_from_slice(&[
            u64::from_le_bytes(*b"PWILCONF"),
            3 << 32 | 2,
            0,
            0x0102_0304,
            0x0506_0708,
            0x12 << 32 | 0x11,
            1 << 32 | 0x13,
            u64::from_le_bytes(*b"kiosk\0\0\0"),
        ]);
        words[2] = checksum::of_words(&words[..64]);
        assert_eq!(page.0, words);
    }

    #[test]
    fn zeros_are_the_default() {
        let default = Configuration {
            mode: SleepMode::Persist,
            stage_delay_ms: 1_800_000,
            break_even_ms: 0,
            next_snapshot: None,
            snapshots: SnapshotRules {
                tries: 3,
                trial_ms: 60_000,
                key_ms: 0,
            },
        };
        assert_eq!(Configuration::default(), default);
        assert_eq!(Configuration::parse(&Page::ZERO), Ok(default));
        // The rest of the page is nobody's.
        let mut page = Page::ZERO;
        page.0[WORDS] = 1;
        assert_eq!(Configuration::parse(&page), Ok(default));
    }

    #[test]
    fn each_mode_stages_when_it_says() {
        let after = |mode, break_even_ms| {
            let configuration = Configuration {
                mode,
                stage_delay_ms: 20,
                break_even_ms,
                ..Configuration::default()
            };
            configuration.stage_after_ms()
        };
        for break_even in [0, 30] {
            assert_eq!(after(SleepMode::Persist, break_even), Some(0));
            assert_eq!(after(SleepMode::Retain, break_even), None);
            assert_eq!(after(SleepMode::Staged, break_even), Some(20));
        }
        assert_eq!(after(SleepMode::Auto, 0), Some(20));
        assert_eq!(after(SleepMode::Auto, 30), Some(30));
    }

    #[test]
    fn delays_have_limits() {
        let default = Configuration::default();
        let stage = |stage_delay_ms| Configuration {
            stage_delay_ms,
            ..default
        };
        let break_even = |break_even_ms| Configuration {
            break_even_ms,
            ..default
        };
        for good in [
            stage(1),
            stage(LONGEST_DELAY_MS),
            break_even(0),
            break_even(LONGEST_DELAY_MS),
        ] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for ms in [0, LONGEST_DELAY_MS + 1, u64::MAX] {
            let delay = Delay::Stage;
            assert_eq!(stage(ms).check(), Err(DelayError { delay, ms }));
        }
        for ms in [LONGEST_DELAY_MS + 1, u64::MAX] {
            let delay = Delay::BreakEven;
            assert_eq!(break_even(ms).check(), Err(DelayError { delay, ms }));
        }
    }

    /// The page of the default configuration, with a word changed and the
    /// checksum made to fit.
    fn changed(word: usize, value: u64) -> Page {
        let mut page = Page::ZERO;
        Configuration::default().write(&mut page);
        page.0[word] = value;
        page.0[CHECKSUM_WORD] = checksum::of_words_but(&page.0[..WORDS], CHECKSUM_WORD);
        page
    }

    #[test]
    fn each_refusal_says_what_and_what_mends_it() {
        let delay = Delay::Stage;
        let refusals = [
            (changed(0, 7), ConfigurationError::NotAConfiguration),
            (
                changed(1, 1 << 32 | 1),
                ConfigurationError::Version { found: 1, known: 2 },
            ),
            (
                changed(1, 1 << 32 | 1 << 16 | 2),
                ConfigurationError::Invalid,
            ),
            (changed(6, 2 << 32), ConfigurationError::Invalid),
            (changed(11, 1), ConfigurationError::Invalid),
            (changed(63, 1 << 63), ConfigurationError::Invalid),
            (changed(1, 2), ConfigurationError::Mode(0)),
            (changed(1, 5 << 32 | 2), ConfigurationError::Mode(5)),
            (
                changed(3, 0),
                ConfigurationError::Delay(DelayError { delay, ms: 0 }),
            ),
            (
                changed(6, 10_001),
                ConfigurationError::Delay(DelayError {
                    delay: Delay::Key,
                    ms: 10_001,
                }),
            ),
        ];
        for (page, error) in refusals {
            assert_eq!(Configuration::parse(&page), Err(error));
            let text = error.to_string();
            for words in ["configuration", "persist", "poorwill area set"] {
                assert!(text.contains(words), "no {words:?}: {text}");
            }
        }
    }

    fn configurations() -> impl Strategy<Value = Configuration> {
        let mode = prop::sample::select(&SleepMode::ALL[..]);
        let delays = (1..=LONGEST_DELAY_MS, 0..=LONGEST_DELAY_MS);
        let rules = (any::<u32>(), any::<u32>(), 0..=LONGEST_KEY_MS);
        let name = prop::option::of("([!-~]([ -~]{0,30}[!-~])?)?");
        (mode, delays, rules, name).prop_map(|(mode, delays, rules, name)| Configuration {
            mode,
            stage_delay_ms: delays.0,
            break_even_ms: delays.1,
            next_snapshot: name.map(|name| name.parse().unwrap()),
            snapshots: SnapshotRules {
                tries: rules.0,
                trial_ms: rules.1,
                key_ms: rules.2,
            },
        })
    }

    proptest! {
        #[test]
        fn configurations_come_back(configuration in configurations()) {
            let mut page = Page([!0; 512]);
            configuration.write(&mut page);
            prop_assert_eq!(Configuration::parse(&page), Ok(configuration));
        }

        #[test]
        fn every_bit_counts(configuration in configurations(), bit in 0usize..WORDS * 64) {
            let mut page = Page::ZERO;
            configuration.write(&mut page);
            page.0[bit / 64] ^= 1 << (bit % 64);
            let error = if bit < 64 {
                ConfigurationError::NotAConfiguration
            } else {
                ConfigurationError::Damaged
            };
            prop_assert_eq!(Configuration::parse(&page), Err(error));
        }

        #[test]
        fn no_contents_lead_astray(words: [u64; 12], has_magic: bool, fits: bool) {
            let mut page = Page::ZERO;
            page.0[..12].copy_from_slice(&words);
            if has_magic {
                page.0[0] = u64::from_le_bytes(MAGIC);
            }
            if fits {
                page.0[CHECKSUM_WORD] = checksum::of_words_but(&page.0[..WORDS], CHECKSUM_WORD);
            }
            if let Ok(configuration) = Configuration::parse(&page) {
                prop_assert_eq!(configuration.check(), Ok(()));
            }
        }

        #[test]
        fn what_is_read_is_in_range(word in 1usize..12, value: u64) {
            if let Ok(configuration) = Configuration::parse(&changed(word, value)) {
                prop_assert_eq!(configuration.check(), Ok(()));
            }
        }
    }
}
