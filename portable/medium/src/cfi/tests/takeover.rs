//! Taking a bank over, and learning what it is.

use super::model::{Bank, Mode, table};
use super::*;
use crate::cfi::Region;

#[test]
fn every_arrangement_of_chips_is_recognised() {
    for (width, chip) in ARRANGEMENTS {
        for is_emulated in [false, true] {
            let bank = Bank::new(width, chip, SMALL);
            bank.with(|state| {
                for chip in &mut state.chips {
                    chip.is_emulated = is_emulated;
                }
            });
            let cfi = Cfi::start(&bank, &bank).unwrap();
            let geometry = cfi.geometry();
            let chips = u64::from(width / chip);
            assert_eq!(geometry.chip_width, chip);
            assert_eq!(geometry.bytes, 8192 * chips);
            assert_eq!(
                geometry.regions[..],
                [Region {
                    blocks: 8,
                    block_bytes: 1024 * chips
                }]
            );
            assert!(!geometry.can_unlock);
            assert_eq!((geometry.program_ms, geometry.erase_ms), (10, 16_384));
            assert!(bank.is_at_rest(), "{width} {chip}");
            assert!(bank.bytes().iter().all(|&byte| byte == 0xff));
        }
    }
}

#[test]
fn the_bank_of_qemus_virt() {
    let bank = Bank::new(4, 2, &[(128, 128 << 10)]);
    let cfi = Cfi::start(&bank, &bank).unwrap();
    assert_eq!(cfi.geometry().bytes, 32 << 20);
    assert_eq!(
        cfi.geometry().block_at(31 << 20),
        Some((31 << 20, 256 << 10))
    );
    let part: Part<_, _> = Part::new(cfi, 31 << 20..32 << 20).unwrap();
    assert_eq!(part.into_bank().geometry().regions[0].blocks, 128);
}

#[test]
fn blocks_of_several_sizes() {
    let bank = Bank::new(2, 2, &[(8, 128), (1, 1024), (3, 2048)]);
    let cfi = Cfi::start(&bank, &bank).unwrap();
    let geometry = cfi.geometry();
    assert_eq!(geometry.block_at(0), Some((0, 128)));
    assert_eq!(geometry.block_at(1023), Some((896, 128)));
    assert_eq!(geometry.block_at(1024), Some((1024, 1024)));
    assert_eq!(geometry.block_at(4095), Some((2048, 2048)));
    assert_eq!(geometry.block_at(8191), Some((6144, 2048)));
    assert_eq!(geometry.block_at(8192), None);
}

/// Whatever an OS was doing: the bank is taken over, and not a bit changes.
#[test]
fn whatever_mode_the_os_left() {
    let modes = [
        Mode::Array,
        Mode::Status,
        Mode::Query,
        Mode::Identity,
        Mode::Program,
        Mode::Erase,
        Mode::Lock,
    ];
    for (width, chip) in ARRANGEMENTS {
        for mode in modes {
            for status in [0x80, 0xba, 0x00] {
                let bank = Bank::new(width, chip, SMALL);
                bank.with(|state| {
                    for chip in &mut state.chips {
                        let word = 0x0051_5251 & chip.words[0];
                        chip.words.fill(word);
                        chip.mode = mode;
                        chip.status = status;
                    }
                });
                let before = bank.bytes();
                crate::cfi::read_array(&&bank);
                assert!(bank.with(|state| state.chips.iter().all(|chip| chip.mode == Mode::Array)));
                assert!(bank.bytes() == before, "{width} {chip} {mode:?}");
                bank.with(|state| state.chips.iter_mut().for_each(|chip| chip.mode = mode));
                let mut part = whole(&bank);
                assert!(bank.is_at_rest(), "{width} {chip} {mode:?}");
                assert!(bank.bytes() == before, "{width} {chip} {mode:?}");
                now(embedded_storage_async::nor_flash::NorFlash::erase(
                    &mut part, 0, 4096,
                ))
                .unwrap();
                assert!(bank.bytes()[..4096].iter().all(|&byte| byte == 0xff));
            }
        }
    }
}

#[test]
fn an_erase_under_way_is_waited_for() {
    let bank = Bank::new(4, 2, SMALL);
    bank.with(|state| state.chips[1].busy_until = 300);
    let cfi = Cfi::start(&bank, &bank).unwrap();
    assert_eq!(cfi.geometry().chip_width, 2, "not taken for one chip");
    assert!(bank.is_at_rest());
    for (busy, error) in [
        (
            1..2,
            CfiError::Registers {
                needed: 8192,
                given: 16384,
            },
        ),
        (0..2, CfiError::NotCfi),
    ] {
        let bank = Bank::new(4, 2, SMALL);
        bank.with(|state| {
            for chip in &mut state.chips[busy] {
                chip.busy_until = u64::MAX;
            }
        });
        assert_eq!(refused(&bank), error);
        let waited = bank.with(|state| state.now);
        assert!((1000..1100).contains(&waited), "{waited} ms");
    }
}

#[test]
fn what_is_no_flash_is_refused() {
    for fill in [0x00, 0xff, 0x51] {
        let bank = Bank::new(4, 2, SMALL);
        bank.with(|state| {
            for chip in &mut state.chips {
                chip.table = vec![fill; 0x60];
            }
        });
        assert_eq!(refused(&bank), CfiError::NotCfi);
        assert!(bank.is_at_rest());
    }
}

#[test]
fn other_command_sets_are_refused_by_name() {
    for (set, name) in [
        (2_u16, "0x0002 (AMD's)"),
        (3, "0x0003 (Intel's standard one)"),
        (0x0200, "0x0200 (Intel's performance one)"),
        (0x1234, "0x1234,"),
    ] {
        let bank = Bank::new(4, 2, SMALL);
        bank.with(|state| {
            for chip in &mut state.chips {
                chip.table[0x13..0x15].copy_from_slice(&set.to_le_bytes());
            }
        });
        let error = refused(&bank);
        assert_eq!(error, CfiError::CommandSet(set));
        assert!(error.to_string().contains(name), "{error}");
        assert!(bank.is_at_rest());
    }
}

#[test]
fn nonsense_is_refused() {
    let with_table = |change: fn(&mut Vec<u8>)| {
        let bank = Bank::new(4, 2, SMALL);
        bank.with(|state| {
            for chip in &mut state.chips {
                change(&mut chip.table);
            }
        });
        let error = refused(&bank);
        assert!(bank.is_at_rest());
        error
    };
    let geometry = CfiError::Geometry;
    assert_eq!(with_table(|table| table[0x27] = 14), geometry, "size");
    assert_eq!(with_table(|table| table[0x27] = 200), geometry);
    assert_eq!(with_table(|table| table[0x2c] = 0), geometry, "no region");
    assert_eq!(with_table(|table| table[0x2c] = 9), geometry, "too many");
    assert_eq!(
        with_table(|table| table[0x2d] = 8),
        geometry,
        "a block more"
    );
}

#[test]
fn banks_that_cannot_be_are_refused() {
    let bank = Bank::new(4, 2, SMALL);
    bank.with(|state| state.chips[1].table[0x2d] = 6);
    assert_eq!(refused(&bank), CfiError::Mixed);
    let bank = Bank::new(4, 2, SMALL);
    bank.with(|state| state.width = 3);
    assert_eq!(refused(&bank), CfiError::Width(3));
    let bank = Bank::new(4, 2, SMALL);
    bank.with(|state| state.length = 8192);
    let error = CfiError::Registers {
        needed: 16384,
        given: 8192,
    };
    assert_eq!(refused(&bank), error);
    let bank = Bank::new(4, 2, SMALL);
    bank.with(|state| state.length = 512);
    let error = CfiError::Registers {
        needed: 1024,
        given: 512,
    };
    assert_eq!(refused(&bank), error);
}

#[test]
fn times_that_are_not_given_or_absurd_are_bounded() {
    let times = |change: fn(&mut Vec<u8>)| {
        let bank = Bank::new(1, 1, SMALL);
        bank.with(|state| change(&mut state.chips[0].table));
        let cfi = Cfi::start(&bank, &bank).unwrap();
        (cfi.geometry().program_ms, cfi.geometry().erase_ms)
    };
    assert_eq!(times(|table| table[0x1f..0x27].fill(0)), (100, 16_000));
    assert_eq!(times(|table| table[0x1f..0x23].fill(250)), (60_000, 60_000));
    assert_eq!(times(|table| table[0x1f..0x23].fill(1)), (10, 32));
}

#[test]
fn only_block_by_block_locks_are_opened() {
    let can_unlock = |change: fn(&mut Vec<u8>)| {
        let bank = Bank::new(1, 1, SMALL);
        bank.with(|state| {
            let mut new = table(SMALL, true);
            change(&mut new);
            state.chips[0].table = new;
        });
        Cfi::start(&bank, &bank).unwrap().geometry().can_unlock
    };
    assert!(can_unlock(|_| {}));
    assert!(!can_unlock(|table| table[0x4d] = 1 << 3), "all at once");
    assert!(!can_unlock(|table| table[0x48] = b'X'), "no such table");
    assert!(!can_unlock(|table| table[0x15] = 0), "none");
}

#[test]
fn parts_are_whole_units_of_whole_blocks() {
    let regions: Regions<'_> = &[(8, 512), (2, 4096), (4, 1024)];
    let bank = Bank::new(1, 1, &[(8, 512), (2, 4096), (4, 1024)]);
    let bytes: usize = regions.iter().map(|(count, bytes)| count * bytes).sum();
    assert_eq!(bytes, 16384);
    let part = |range: core::ops::Range<u64>| {
        let cfi = Cfi::start(&bank, &bank).unwrap();
        Part::<_, _, 2048>::new(cfi, range).map(|_| ()).is_ok()
    };
    assert!(part(0..4096), "four blocks a unit");
    assert!(part(512..2560), "also from another block on");
    assert!(part(12288..16384), "two blocks a unit");
    assert!(!part(0..6144), "a block larger than a unit");
    assert!(!part(256..2304), "half a block");
    assert!(!part(0..1024), "half a unit");
    assert!(!part(14336..18432), "beyond the end");
    #[allow(clippy::reversed_empty_ranges, reason = "meant")]
    let reversed = part(4096..0);
    assert!(!reversed);
}
