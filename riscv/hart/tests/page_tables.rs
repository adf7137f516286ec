//! Translation by tables made by hand.

use poorwill_hart::{Mode, PageTables};
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::linux::{AddressSpace, Span};
use poorwill_memory::{PAGE_BYTES, Page, PhysRange, to_usize};
use proptest::prelude::*;

const MODES: [(Mode, u32); 3] = [(Mode::Sv39, 3), (Mode::Sv48, 4), (Mode::Sv57, 5)];

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const USER: u64 = 1 << 4;

/// The entry of each level on the way; from 256 on it is in the kernel's half.
const PLACE: u64 = 300;

/// The address of those entries.
fn address(levels: u32) -> u64 {
    let own = (0..levels).fold(0, |own, level| own | PLACE << (12 + 9 * level));
    u64::MAX << (12 + 9 * levels) | own
}

/// Tables down to the one of `level`, which has the entry `last`.
fn tables(mode: Mode, levels: u32, level: u32, last: u64) -> (FakeMemory, PageTables) {
    let mut memory = FakeMemory::new(&[5]);
    let at: Vec<u64> = memory.os().iter().map(|(_, page)| page.address()).collect();
    for (index, above) in (level..levels).rev().enumerate() {
        let mut page = Page::ZERO;
        page.0[to_usize(PLACE)] = if above == level {
            last
        } else {
            (at[index + 1] / PAGE_BYTES) << 10 | VALID
        };
        memory.set(index as u64, &page);
    }
    let root = at[0];
    (memory, PageTables { root, mode })
}

fn span(mode: Mode, levels: u32, level: u32, last: u64, address: u64) -> Option<Span> {
    let (mut memory, tables) = tables(mode, levels, level, last);
    tables.span(memory.os(), address)
}

#[test]
fn satp_names_them() {
    let mode = |number: u64| PageTables::of_satp(number << 60).map(|tables| tables.mode);
    assert_eq!(mode(0), None, "no translation");
    assert_eq!(mode(8), Some(Mode::Sv39));
    assert_eq!(mode(9), Some(Mode::Sv48));
    assert_eq!(mode(10), Some(Mode::Sv57));
    assert_eq!(mode(11), None, "reserved");
    // The ASID is not of the root's number.
    let tables = PageTables::of_satp(8 << 60 | 0xffff << 44 | 0x8_1234).unwrap();
    assert_eq!(tables.root, 0x8123_4000);
}

#[test]
fn a_leaf_may_be_in_every_level() {
    for (mode, levels) in MODES {
        let address = address(levels);
        for level in 0..levels {
            let bytes = PAGE_BYTES << (9 * level);
            let leaf = (bytes / PAGE_BYTES) << 10 | VALID | READ;
            let expected = Span {
                start: address & !(bytes - 1),
                physical: bytes,
                bytes,
                writable: false,
                user: false,
            };
            for offset in [0, 8, bytes - 1] {
                let found = span(mode, levels, level, leaf, expected.start + offset);
                assert_eq!(found, Some(expected), "{mode:?}, level {level}");
            }
            let writable = span(mode, levels, level, leaf | WRITE, address).unwrap();
            assert!(writable.writable && !writable.user);
            let user = span(mode, levels, level, leaf | USER | EXECUTE, address).unwrap();
            assert!(user.user && !user.writable);
        }
    }
}

#[test]
fn what_is_no_leaf_maps_nothing() {
    for (mode, levels) in MODES {
        let address = address(levels);
        for level in 0..levels {
            let leaf = (1 << (9 * level)) << 10 | VALID | READ;
            let maps = |entry: u64| span(mode, levels, level, entry, address).is_some();
            assert!(maps(leaf));
            assert!(!maps(leaf & !VALID));
            assert!(!maps(leaf & !READ | EXECUTE), "not readable");
            assert!(
                !maps(leaf & !READ),
                "a table that is no memory, or too deep"
            );
            for bit in 54..64 {
                assert!(!maps(leaf | 1 << bit), "bit {bit}");
            }
            assert_eq!(maps(leaf | 1 << 10), level == 0, "aligned");
        }
    }
}

#[test]
fn the_kernel_has_the_upper_half() {
    for (mode, levels) in MODES {
        let address = address(levels);
        let (mut memory, tables) = tables(mode, levels, 0, 1 << 10 | VALID | READ);
        assert!(tables.span(memory.os(), address).is_some());
        for bit in 12 + 9 * levels - 1..64 {
            let other = address ^ 1 << bit;
            assert_eq!(tables.span(memory.os(), other), None, "bit {bit}");
        }
    }
}

#[test]
fn linux_has_its_image_in_the_last_two_gibibytes() {
    let (_, tables) = tables(Mode::Sv39, 3, 0, 0);
    assert!(tables.is_image(0xffff_ffff_8000_0000));
    assert!(tables.is_image(u64::MAX));
    assert!(!tables.is_image(0xffff_ffff_7fff_ffff));
}

proptest! {
    #[test]
    fn no_tables_lead_astray(
        mode in 0_usize..3,
        entries in prop::collection::vec((0_u64..5, any::<u64>(), 0_u64..6), 0..40),
        own in any::<u64>(),
    ) {
        let (mode, levels) = MODES[mode];
        let mut memory = FakeMemory::new(&[5]);
        let at: Vec<u64> = memory.os().iter().map(|(_, page)| page.address()).collect();
        // Few indices, so that walks go on; most entries lead to a table here.
        let index = |level: u32| 256 + (own >> (2 * level) & 3);
        for (page, value, next) in entries {
            let mut changed = memory.contents()[to_usize(page)].clone();
            changed.0[to_usize(256 + (value & 3))] = match at.get(to_usize(next)) {
                Some(table) => (table / PAGE_BYTES) << 10 | VALID,
                None => value,
            };
            memory.set(page, &changed);
        }
        let address = (0..levels).fold(u64::MAX << (12 + 9 * levels), |address, level| {
            address | index(level) << (12 + 9 * level)
        });
        let tables = PageTables { root: at[0], mode };
        if let Some(span) = tables.span(memory.os(), address) {
            prop_assert!(span.start <= address && address - span.start < span.bytes);
            prop_assert!(span.start.is_multiple_of(span.bytes));
            prop_assert!(span.physical.is_multiple_of(span.bytes));
        }
    }
}

#[test]
fn a_search_sees_every_kind_of_leaf_and_ends() {
    for (mode, levels) in MODES {
        for level in 0..levels {
            let bytes = PAGE_BYTES << (9 * level);
            let leaf = (bytes / PAGE_BYTES) << 10 | VALID | READ | WRITE;
            let (mut memory, tables) = tables(mode, levels, level, leaf);
            let there = PhysRange::new(bytes, bytes);
            let address = address(levels);
            let mut find = |first, most| {
                let is_found = |range: &PhysRange| *range == there;
                tables.find(memory.os(), first, most, &is_found)
            };
            let looked_at = u64::from(levels - level);
            assert_eq!(
                find(address, looked_at),
                Some(there),
                "{mode:?}, level {level}"
            );
            assert_eq!(find(address, looked_at - 1), None, "no more than told");
            let behind = (address | (bytes - 1)).wrapping_add(1);
            assert_eq!(find(behind, u64::MAX), None, "below the first address");
        }
    }
}

#[test]
fn a_search_names_tables_that_are_no_memory() {
    let elsewhere = 0x77_0000_0000;
    for (mode, levels) in MODES {
        let entry = (elsewhere / PAGE_BYTES) << 10 | VALID;
        let (mut memory, tables) = tables(mode, levels, 1, entry);
        let is_found = |range: &PhysRange| range.start == elsewhere;
        let found = tables.find(memory.os(), address(levels), 100, &is_found);
        assert_eq!(
            found,
            Some(PhysRange::new(elsewhere, PAGE_BYTES)),
            "{mode:?}"
        );
    }
}
