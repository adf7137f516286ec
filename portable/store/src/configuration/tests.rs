use core::mem::offset_of;
use std::format;
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::delay::{LONGEST_DELAY_MS, LONGEST_KEY_MS};

#[test]
fn the_layout_is_pinned() {
    assert_eq!(CONFIGURATION_VERSION, 4);
    assert_eq!(OLDEST_CONFIGURATION_VERSION, 2);
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
        mode: Some(SleepMode::Staged),
        stage_delay_ms: 0x0102_0304,
        break_even_ms: 0x0506_0708,
        next_snapshot: Some("kiosk".parse().unwrap()),
        accepts_unguarded: false,
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
    for (mode, number) in [(None, 0), (Some(SleepMode::Cut), 5)] {
        Configuration {
            mode,
            ..configuration
        }
        .write(&mut page);
        assert_eq!(page.0[1], number << 32 | 3, "what format 2 cannot say");
    }
    Configuration {
        accepts_unguarded: true,
        ..configuration
    }
    .write(&mut page);
    assert_eq!(page.0[1], 3 << 32 | 4, "what format 3 cannot say");
    assert_eq!(page.0[6], 2 << 32 | 0x13);
    page.0[1] = 3 << 32 | 3;
    page.0[2] = checksum::of_words_but(&page.0[..64], 2);
    assert_eq!(
        Configuration::parse(&page),
        Err(ConfigurationError::Invalid)
    );
}

#[test]
fn zeros_are_the_default() {
    let default = Configuration {
        mode: None,
        stage_delay_ms: 1_800_000,
        break_even_ms: 0,
        next_snapshot: None,
        accepts_unguarded: false,
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
            mode: Some(mode),
            stage_delay_ms: 20,
            break_even_ms,
            ..Configuration::default()
        };
        configuration.stage_after_ms()
    };
    for break_even in [0, 30] {
        assert_eq!(after(SleepMode::Persist, break_even), Some(0));
        assert_eq!(after(SleepMode::Cut, break_even), Some(0));
        assert_eq!(after(SleepMode::Retain, break_even), None);
        assert_eq!(after(SleepMode::Staged, break_even), Some(20));
    }
    assert_eq!(Configuration::default().stage_after_ms(), Some(0));
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
            ConfigurationError::Version { found: 1, known: 4 },
        ),
        (
            changed(1, 1 << 32 | 5),
            ConfigurationError::Version { found: 5, known: 4 },
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
        (changed(1, 6 << 32 | 3), ConfigurationError::Mode(6)),
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
    let mode = prop::option::of(prop::sample::select(&SleepMode::ALL[..]));
    let delays = (1..=LONGEST_DELAY_MS, 0..=LONGEST_DELAY_MS);
    let rules = (any::<u32>(), any::<u32>(), 0..=LONGEST_KEY_MS);
    let name = prop::option::of("([!-~]([ -~]{0,30}[!-~])?)?");
    let next = (name, any::<bool>());
    (mode, delays, rules, next).prop_map(|(mode, delays, rules, (name, accepts))| Configuration {
        mode,
        stage_delay_ms: delays.0,
        break_even_ms: delays.1,
        accepts_unguarded: accepts && name.is_some(),
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

#[test]
fn the_table_of_formats_names_the_versions() {
    let table = include_str!("../../../../docs/image-format.md");
    let row = table.lines().find_map(|line| {
        line.strip_prefix("| configuration | ")
            .and_then(|rest| rest.split_once(" |"))
    });
    let older = (OLDEST_CONFIGURATION_VERSION..CONFIGURATION_VERSION)
        .rev()
        .map(|version| version.to_string())
        .collect::<Vec<_>>();
    let wanted = format!("{CONFIGURATION_VERSION} (and {})", older.join(", "));
    assert_eq!(row.map(|(versions, _)| versions), Some(&wanted[..]));
}
