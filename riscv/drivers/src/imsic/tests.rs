#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::WrongLength;

/// An interrupt file as RV64 code sees it (AIA, 3.8 and 3.9).
#[derive(Debug)]
struct Model {
    identities: u32,
    registers: RefCell<BTreeMap<u64, u64>>,
}

impl Model {
    fn new(identities: u32) -> Self {
        Model {
            identities,
            registers: RefCell::default(),
        }
    }

    /// The identity that the hart is interrupted with.
    fn top(&self) -> Option<u32> {
        let threshold = match self.read(register::EITHRESHOLD) {
            0 => u64::MAX,
            threshold => threshold,
        };
        if self.read(register::EIDELIVERY) != DELIVER {
            return None;
        }
        (1..=self.identities).find(|identity| {
            let bit = |array| {
                let word = self.read(array + 2 * u64::from(identity / 64));
                word & 1 << (identity % 64) != 0
            };
            bit(register::EIP0) && bit(register::EIE0) && u64::from(*identity) < threshold
        })
    }

    /// A message from a device (AIA, 3.5).
    fn receive(&self, identity: u32) {
        let register = register::EIP0 + 2 * u64::from(identity / 64);
        self.write(register, self.read(register) | 1 << (identity % 64));
    }
}

impl Registers<u64> for Model {
    fn read(&self, number: u64) -> u64 {
        let odd = number >= register::EIP0 && !number.is_multiple_of(2);
        assert!(!odd, "reading {number:#x} is an illegal instruction");
        self.registers.borrow().get(&number).copied().unwrap_or(0)
    }

    fn write(&self, number: u64, value: u64) {
        let value = match number {
            register::EIDELIVERY => match value {
                0 | 1 | 0x4000_0000 => value,
                // WARL.
                _ => 0,
            },
            register::EITHRESHOLD => value & 0x7ff,
            0x80..0x100 => {
                assert!(
                    number.is_multiple_of(2),
                    "writing {number:#x} is an illegal instruction"
                );
                let first = 32 * (number as u32 & 0x3f);
                let exists = |bit: &u32| (1..=self.identities).contains(&(first + bit));
                value & (0..64).filter(exists).fold(0, |mask, bit| mask | 1 << bit)
            }
            _ => panic!("{number:#x} is reserved"),
        };
        self.registers.borrow_mut().insert(number, value);
    }
}

#[test]
fn what_was_programmed_and_pending_comes_back() {
    for identities in [63, 127, 255, 2047] {
        let before = Model::new(identities);
        for group in 0..=u64::from(identities / 64) {
            let bits = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(group + 1);
            before.write(register::EIP0 + 2 * group, bits);
            before.write(register::EIE0 + 2 * group, bits.rotate_left(7));
        }
        before.write(register::EITHRESHOLD, 60);
        before.write(register::EIDELIVERY, DELIVER);
        let words: Vec<u64> = InterruptFile::new(&before, identities).capture().collect();
        assert!(words.len() <= MAX_WORDS);

        let after = Model::new(identities);
        let file = InterruptFile::new(&after, identities);
        file.restore(&file.check(&words[..]).unwrap());
        assert_eq!(before.registers, after.registers);
        assert_eq!(before.top(), after.top());
    }
}

#[test]
fn the_record_of_an_image_keeps_its_order() {
    let model = Model::new(127);
    let file = InterruptFile::new(&model, 127);
    let offsets: Vec<u64> = file.offsets().collect();
    assert_eq!(offsets, [0x72, 0x80, 0xc0, 0x82, 0xc2, 0x70]);
}

#[test]
fn the_state_of_another_file_is_refused() {
    let model = Model::new(255);
    let file = InterruptFile::new(&model, 255);
    let needed = 2 + 2 * 4;
    for found in [0, needed - 1, needed + 1] {
        let error = file.check(vec![0; found]).unwrap_err();
        assert_eq!(error, WrongLength { needed, found });
    }
}

#[test]
fn an_open_file_lets_its_identity_through_and_no_other() {
    let model = Model::new(63);
    model.write(register::EITHRESHOLD, 1);
    model.write(register::EIE0, u64::MAX);
    open(&model, 1);
    model.receive(2);
    assert_eq!(model.top(), None);
    model.receive(1);
    assert_eq!(model.top(), Some(1));
}
