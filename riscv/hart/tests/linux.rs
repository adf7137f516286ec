//! The free pages of a small Linux that runs on page tables.

use poorwill_hart::fake::{map, page_tables};
use poorwill_hart::{Mode, PageTables};
use poorwill_memory::fake::{Offsets, Places, Rights, SmallLinux};
use poorwill_memory::linux::{FreeListError, free_pages};
use poorwill_memory::{PAGE_BYTES, Page, PageMap, to_usize};
use proptest::prelude::*;

const RANGES: [u64; 2] = [300, 200];
const PAGES: u64 = RANGES[0] + RANGES[1];

const MODES: [Mode; 3] = [Mode::Sv39, Mode::Sv48, Mode::Sv57];

/// One that runs in a mode, and has all free that it does not need.
fn running(mode: usize, offsets: Offsets) -> (SmallLinux, PageTables) {
    let mut linux = SmallLinux::with_offsets(Places::ALL[mode], &RANGES, offsets);
    let tables = page_tables(&mut linux, MODES[mode]);
    linux.free_all_but(|_| false);
    (linux, tables)
}

/// The indices of the pages that are free, or why there are none.
fn free_of(linux: &SmallLinux, tables: PageTables) -> Result<Vec<u64>, FreeListError> {
    let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(PAGES))];
    let mut map = PageMap::new(&mut room, PAGES).unwrap();
    free_pages(linux.os(), &tables, &mut map).map(|_| map.members().collect())
}

#[test]
fn what_is_free_is_found_in_every_mode() {
    for mode in 0..MODES.len() {
        for offsets in [Offsets::FromBase, Offsets::FromThemselves] {
            let (mut linux, tables) = running(mode, offsets);
            let first = linux.first_free();
            assert_eq!(free_of(&linux, tables), Ok((first..PAGES).collect()));
            let used = |index| index % 7 == 3 || index > 400 && index % 3 == 0;
            linux.free_all_but(used);
            let expected: Vec<u64> = (first..PAGES).filter(|index| !used(*index)).collect();
            assert_eq!(free_of(&linux, tables), Ok(expected));
        }
    }
}

#[test]
fn in_another_mode_nothing_is_free() {
    let (linux, tables) = running(1, Offsets::FromBase);
    for mode in [Mode::Sv39, Mode::Sv57] {
        assert!(free_of(&linux, PageTables { mode, ..tables }).is_err());
    }
}

#[test]
fn a_table_of_symbols_that_can_be_written_is_not_believed() {
    for mode in 0..MODES.len() {
        let (mut linux, tables) = running(mode, Offsets::FromBase);
        let image = linux.symbol("_stext");
        for page in 1..4 {
            let at = 0xffff_ffff_8000_0000 + page * PAGE_BYTES;
            let physical = image + page * PAGE_BYTES;
            map(&mut linux, tables, at, physical, Rights::Write);
            assert!(matches!(
                free_of(&linux, tables),
                Err(FreeListError::Symbols(_))
            ));
            map(&mut linux, tables, at, physical, Rights::UserRead);
            assert!(matches!(
                free_of(&linux, tables),
                Err(FreeListError::Nowhere(_))
            ));
            map(&mut linux, tables, at, physical, Rights::Read);
            assert!(free_of(&linux, tables).is_ok());
        }
    }
}

#[test]
fn memory_that_was_added_is_seen() {
    for mode in 0..MODES.len() {
        let (mut linux, tables) = running(mode, Offsets::FromBase);
        let memory = Places::ALL[mode].linear_map;
        // Behind all that is mapped there, where the kernel puts more of it.
        let at = memory + (64 << 20);
        let added = 0x1_2345_6000;
        map(&mut linux, tables, at, added, Rights::Write);
        linux.free_all_but(|_| false);
        let found = free_of(&linux, tables);
        assert_eq!(found, Err(FreeListError::Added(added)), "{mode}");
        // What lies below is the kernel's for devices; so it has memory for no reason.
        let own = linux.note();
        map(&mut linux, tables, at, own, Rights::Write);
        map(
            &mut linux,
            tables,
            memory - PAGE_BYTES,
            added,
            Rights::Write,
        );
        linux.free_all_but(|_| false);
        assert!(free_of(&linux, tables).is_ok(), "{mode}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tables with words changed anywhere: never a panic, and no page is free that
    /// was not.
    #[test]
    fn damage_frees_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_u32..64), 1..6),
        mode in 0_usize..3,
    ) {
        let (mut linux, tables) = running(mode, Offsets::FromBase);
        linux.free_all_but(|index| index % 5 == 0);
        let truth = free_of(&linux, tables).unwrap();
        let start = (tables.root - linux.os().at(0).unwrap().address()) / PAGE_BYTES;
        let words = (linux.first_free() - start) * PAGE_BYTES / 8;
        for (place, bit) in changes {
            // Most words are zeros, and change nothing.
            let used = |word: &u64| linux.word(tables.root + word * 8) != 0;
            let used: Vec<u64> = (0..words).filter(used).collect();
            let at = tables.root + used[place.index(used.len())] * 8;
            linux.set_word(at, linux.word(at) ^ 1 << bit);
        }
        for index in free_of(&linux, tables).unwrap_or_default() {
            prop_assert!(truth.contains(&index), "page {}", index);
        }
    }
}
