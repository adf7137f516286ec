//! Reading, writing, erasing.

use embedded_storage_async::nor_flash::{NorFlash, ReadNorFlash};
use proptest::prelude::*;

use super::model::Bank;
use super::*;

fn emulate(bank: &Bank, is_emulated: bool) {
    bank.with(|state| {
        for chip in &mut state.chips {
            chip.is_emulated = is_emulated;
        }
    });
}

#[test]
fn words_are_written_and_blocks_erased() {
    for (width, chip) in ARRANGEMENTS {
        for is_emulated in [false, true] {
            let bank = Bank::new(width, chip, SMALL);
            emulate(&bank, is_emulated);
            bank.with(|state| state.duration = 5);
            let mut part = whole(&bank);
            let data: Vec<u8> = (0..200).map(|byte| byte as u8 ^ 0x35).collect();
            now(part.write(8, &data)).unwrap();
            assert!(bank.is_at_rest());
            let mut back = vec![0; 200];
            now(part.read(8, &mut back)).unwrap();
            assert_eq!(back, data);
            assert_eq!(bank.bytes()[8..208], data);
            assert_eq!(bank.bytes()[..8], [0xff; 8]);
            now(part.write(4096, &[0; 4])).unwrap();
            now(part.erase(0, 4096)).unwrap();
            assert!(bank.is_at_rest());
            assert!(bank.bytes()[..4096].iter().all(|&byte| byte == 0xff));
            assert_eq!(bank.bytes()[4096..4100], [0; 4]);
            assert_eq!(part.failure(), None);
        }
    }
}

#[test]
fn a_part_keeps_to_its_blocks() {
    let bank = Bank::new(4, 2, SMALL);
    let mut all = whole(&bank);
    now(all.write(0, &vec![0; 16384])).unwrap();
    let cfi = all.into_bank();
    let mut part: TestPart<'_, 2048> = Part::new(cfi, 4096..8192).unwrap();
    assert_eq!(part.capacity(), 4096);
    now(part.erase(2048, 4096)).unwrap();
    now(part.write(2048, &[0x5a; 4])).unwrap();
    let mut back = [0; 4];
    now(part.read(2048, &mut back)).unwrap();
    assert_eq!(back, [0x5a; 4]);
    let bytes = bank.bytes();
    assert!(bytes[..6144].iter().all(|&byte| byte == 0));
    assert_eq!(bytes[6144..6148], [0x5a; 4]);
    assert!(bytes[6148..8192].iter().all(|&byte| byte == 0xff));
    assert!(bytes[8192..].iter().all(|&byte| byte == 0));
}

#[test]
fn a_part_knows_whether_it_is_alone_in_the_bank() {
    let bank = Bank::new(4, 2, SMALL);
    let mut all = whole(&bank);
    now(all.erase(0, 16384)).unwrap();
    now(all.write(4096, &[0; 4096])).unwrap();
    let own: TestPart<'_, 2048> = Part::new(all.into_bank(), 4096..8192).unwrap();
    assert!(own.is_rest_erased(), "what is its own does not count");
    for offset in [0, 4092, 8192, 16380] {
        let mut all = whole(&bank);
        now(all.erase(0, 16384)).unwrap();
        now(all.write(offset, &[0xff, 0xff, 0xfe, 0xff])).unwrap();
        let own: TestPart<'_, 2048> = Part::new(all.into_bank(), 4096..8192).unwrap();
        assert!(!own.is_rest_erased(), "{offset}");
    }
}

#[test]
fn what_need_not_be_written_is_not() {
    let bank = Bank::new(4, 2, SMALL);
    let mut part = whole(&bank);
    now(part.write(0, &[0xff; 64])).unwrap();
    assert_eq!(bank.with(|state| state.programs), 0);
    now(part.write(0, &[0x0f; 64])).unwrap();
    assert_eq!(bank.with(|state| state.programs), 16);
    now(part.write(0, &[0x0f; 64])).unwrap();
    assert_eq!(bank.with(|state| state.programs), 16);
}

#[test]
fn wrong_accesses_are_refused_before_anything_happens() {
    let bank = Bank::new(4, 2, SMALL);
    let mut part = whole(&bank);
    let mut word = [0; 4];
    let misaligned = |offset| Err(CfiError::Misaligned(offset));
    let beyond = |offset, end| Err(CfiError::OutOfRange { offset, end });
    assert_eq!(now(part.read(2, &mut word)), misaligned(2));
    assert_eq!(now(part.read(0, &mut word[..3])), misaligned(0));
    assert_eq!(now(part.write(2, &word)), misaligned(2));
    assert_eq!(now(part.write(0, &word[..2])), misaligned(0));
    assert_eq!(now(part.erase(2048, 4096)), misaligned(2048));
    assert_eq!(now(part.erase(0, 2048)), misaligned(0));
    assert_eq!(now(part.read(16384, &mut word)), beyond(16384, 16388));
    assert_eq!(now(part.write(16382, &word)), beyond(16382, 16386));
    assert_eq!(now(part.erase(12288, 20480)), beyond(12288, 20480));
    assert_eq!(now(part.erase(4096, 0)), beyond(4096, 0));
    assert!(bank.bytes().iter().all(|&byte| byte == 0xff));
    assert!(bank.is_at_rest());
}

#[test]
fn locked_blocks_are_unlocked_first() {
    for (width, chip) in ARRANGEMENTS {
        let bank = Bank::with_locks(width, chip, SMALL, true);
        let cfi = Cfi::start(&bank, &bank).unwrap();
        let block = cfi.geometry().regions[0].block_bytes as usize;
        let mut part = whole(&bank);
        // Across the border of two blocks, and more than a run in each.
        now(part.write(block as u32 - 100, &[0x42; 200])).unwrap();
        assert_eq!(bank.bytes()[block - 100..block + 100], [0x42; 200]);
        now(part.erase(4096, 8192)).unwrap();
        assert!(bank.is_at_rest());
        bank.with(|state| {
            for chip in &state.chips {
                let unlocked = chip.locked.iter().filter(|locked| !**locked).count();
                let touched = [0..2, 4096 / block..8192 / block]
                    .into_iter()
                    .flatten()
                    .collect::<std::collections::BTreeSet<_>>();
                assert_eq!(unlocked, touched.len(), "no other block is unlocked");
            }
        });
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(u32, Vec<u8>),
    Erase(u32, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0_u32..1000, prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(at, mut bytes)| {
            bytes.truncate(bytes.len() / 4 * 4);
            Op::Write(at * 4, bytes)
        }),
        1 => (0_u32..2, 0_u32..2).prop_map(|(from, more)| Op::Erase(from * 4096, (from + more) * 4096)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The bank behaves as bits that writing clears and erasing sets.
    #[test]
    fn as_nor_flash(
        ops in prop::collection::vec(op(), 1..20),
        arrangement in 0_usize..6,
        is_emulated: bool,
        has_locks: bool,
    ) {
        let (width, chip) = ARRANGEMENTS[arrangement];
        let bank = Bank::with_locks(width, chip, SMALL, has_locks);
        emulate(&bank, is_emulated);
        let mut part = whole(&bank);
        let mut expected = vec![0xff; part.capacity()];
        for op in ops {
            match op {
                Op::Write(at, bytes) => {
                    now(part.write(at, &bytes)).unwrap();
                    for (old, new) in expected[at as usize..].iter_mut().zip(&bytes) {
                        *old &= new;
                    }
                }
                Op::Erase(from, to) => {
                    now(part.erase(from, to)).unwrap();
                    expected[from as usize..to as usize].fill(0xff);
                }
            }
            prop_assert!(bank.is_at_rest());
        }
        let mut back = vec![0; expected.len()];
        now(part.read(0, &mut back)).unwrap();
        prop_assert!(back == expected);
    }
}
