//! In which mode an OS has left a bank.

use proptest::prelude::*;

use super::model::{self, Bank};
use super::*;
use crate::cfi::{Geometry, Mode, ModeError, Registers, read_mode, set_mode};

const MODES: [(Mode, model::Mode); 4] = [
    (Mode::Array, model::Mode::Array),
    (Mode::Status, model::Mode::Status),
    (Mode::Identity, model::Mode::Identity),
    (Mode::Query, model::Mode::Query),
];

fn geometry(bank: &Bank) -> Geometry {
    Cfi::start(bank, bank).unwrap().geometry().clone()
}

/// A bank that holds these words at its beginning, and what it is like.
fn bank(width: u8, chip: u8, words: &[u32], is_emulated: bool) -> (Bank, Geometry) {
    let bank = Bank::new(width, chip, SMALL);
    bank.with(|state| {
        for chip in &mut state.chips {
            chip.is_emulated = is_emulated;
            for (place, word) in chip.words.iter_mut().zip(words) {
                *place &= *word;
            }
        }
    });
    let geometry = geometry(&bank);
    (bank, geometry)
}

/// The offset of the last word.
fn last(bank: &Bank) -> u64 {
    bank.bytes().len() as u64 - u64::from((&bank).width())
}

fn leave(bank: &Bank, mode: model::Mode, status: u8) {
    bank.with(|state| {
        for chip in &mut state.chips {
            (chip.mode, chip.status) = (mode, status);
        }
    });
}

#[test]
fn each_mode_is_told_from_the_others_and_put_back() {
    for (width, chip) in ARRANGEMENTS {
        for is_emulated in [false, true] {
            for contents in [0, 0x1234_5678, u32::MAX] {
                let (bank, geometry) = bank(width, chip, &[contents; 0x100], is_emulated);
                let before = bank.bytes();
                for (mode, left) in MODES {
                    leave(&bank, left, 0x80);
                    assert_eq!(
                        read_mode(&&bank, &geometry, last(&bank)),
                        Ok(mode),
                        "{width} {chip}"
                    );
                    assert!(bank.is_at_rest());
                    set_mode(&&bank, &geometry, mode);
                    assert!(bank.with(|state| state.chips.iter().all(|chip| chip.mode == left)));
                }
                assert!(bank.bytes() == before);
            }
        }
    }
}

#[test]
fn a_bank_in_the_middle_of_a_command_is_refused_and_keeps_its_contents() {
    let commands = [
        model::Mode::Program,
        model::Mode::Erase,
        model::Mode::Lock,
        model::Mode::Status,
    ];
    for (width, chip) in ARRANGEMENTS {
        for mode in commands {
            // Status alone is refused for what it says: an error, a suspended erase, and one
            // that somebody has cleared.
            for status in [0x80, 0xa0, 0xc0, 0x00] {
                if (mode, status) == (model::Mode::Status, 0x80) {
                    continue;
                }
                let (bank, geometry) = bank(width, chip, &[0x5a5a_5a5a; 0x100], false);
                leave(&bank, mode, status);
                let before = bank.bytes();
                assert_eq!(
                    read_mode(&&bank, &geometry, last(&bank)),
                    Err(ModeError::Busy),
                    "{mode:?}"
                );
                assert!(bank.bytes() == before);
            }
        }
        // Array, with an erase suspended.
        let (bank, geometry) = bank(width, chip, &[], false);
        leave(&bank, model::Mode::Array, 0xc0);
        assert_eq!(
            read_mode(&&bank, &geometry, last(&bank)),
            Err(ModeError::Busy)
        );
    }
}

/// QEMU's chips set a word that they program.
#[test]
fn an_emulated_bank_that_waits_for_data_keeps_all_but_its_last_word() {
    for (width, chip) in ARRANGEMENTS {
        let (bank, geometry) = bank(width, chip, &[0x5a5a_5a5a; 0x100], true);
        let before = bank.bytes();
        leave(&bank, model::Mode::Program, 0x80);
        let mode = read_mode(&&bank, &geometry, last(&bank));
        assert_eq!(mode, Err(ModeError::Busy));
        let kept = before.len() - usize::from(width);
        assert!(bank.bytes()[..kept] == before[..kept]);
    }
}

#[test]
fn one_that_is_busy_does_not_answer() {
    let (bank, geometry) = bank(4, 2, &[], false);
    bank.with(|state| state.chips[1].busy_until = u64::MAX);
    assert_eq!(
        read_mode(&&bank, &geometry, last(&bank)),
        Err(ModeError::NoAnswer)
    );
}

#[test]
fn contents_that_look_like_a_status_are_refused() {
    let (bank, geometry) = bank(4, 2, &[0x80; 0x100], false);
    for left in [model::Mode::Array, model::Mode::Status] {
        leave(&bank, left, 0x80);
        assert_eq!(
            read_mode(&&bank, &geometry, last(&bank)),
            Err(ModeError::Ambiguous)
        );
    }
}

#[test]
fn what_a_power_on_resets_beside_is_told() {
    for (features, forgets_more) in [
        (0_u32, false),
        (0x0df & !(1 << 5), false),
        (1 << 5, true),
        (1 << 8, true),
        (1 << 9, true),
        (1 << 31, true),
    ] {
        let bank = Bank::new(4, 2, SMALL);
        bank.with(|state| {
            for chip in &mut state.chips {
                chip.table[0x4d..0x51].copy_from_slice(&features.to_le_bytes());
            }
        });
        assert_eq!(geometry(&bank).forgets_more, forgets_more, "{features:#x}");
    }
}

#[test]
fn numbers_of_modes_are_pinned() {
    for (number, (mode, _)) in (0..).zip(MODES) {
        assert_eq!(mode.number(), number);
        assert_eq!(Mode::of_number(number), Some(mode));
    }
    assert_eq!(Mode::of_number(4), None);
}

proptest! {
    /// Whatever a bank holds, it is not taken to be in another mode than it is.
    #[test]
    fn no_contents_mislead(
        words in proptest::collection::vec(
            prop_oneof![Just(0_u32), Just(0x80), Just(0x89), Just(0x51), any::<u32>()],
            0x90,
        ),
        arrangement in 0..ARRANGEMENTS.len(),
        left in 0_usize..4,
        is_emulated: bool,
    ) {
        let (width, chip) = ARRANGEMENTS[arrangement];
        let (bank, geometry) = bank(width, chip, &words, is_emulated);
        let before = bank.bytes();
        let (mode, left) = MODES[left];
        leave(&bank, left, 0x80);
        match read_mode(&&bank, &geometry, last(&bank)) {
            Err(ModeError::Ambiguous) => {}
            found => prop_assert_eq!(found, Ok(mode)),
        }
        prop_assert!(bank.bytes() == before && bank.is_at_rest());
    }
}
