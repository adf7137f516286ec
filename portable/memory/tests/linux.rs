//! The free pages of a small Linux.

use poorwill_memory::fake::{Offsets, Places, Rights, SmallLinux};
use poorwill_memory::linux::{FreeListError, free_pages, suspend_start};
use poorwill_memory::{FreeContents, PAGE_BYTES, Page, PageMap, to_usize};
use proptest::prelude::*;

const RANGES: [u64; 2] = [300, 200];
const PLACES: Places = Places::ALL[2];

fn small() -> SmallLinux {
    SmallLinux::new(PLACES, &RANGES)
}

/// One whose symbols' offsets count from their own places.
fn newer() -> SmallLinux {
    SmallLinux::with_offsets(PLACES, &RANGES, Offsets::FromThemselves)
}

/// The indices of the pages that are free, or why there are none.
fn free_of(linux: &SmallLinux) -> Result<Vec<u64>, FreeListError> {
    let pages = linux.os().pages();
    let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(pages))];
    let mut map = PageMap::new(&mut room, pages).unwrap();
    let found = free_pages(linux.os(), &linux.space, &mut map);
    let members: Vec<u64> = map.members().collect();
    if let Ok(free) = found {
        assert_eq!(free.pages, members.len() as u64);
    } else {
        assert_eq!(members, [], "in doubt, nothing is free");
    }
    found.map(|_| members)
}

/// What marks a free block.
const MARK: u64 = 0xf000_0000;

fn is_marked(linux: &SmallLinux, index: u64, order: u64) -> bool {
    let at = linux.page_struct(index);
    linux.word(at + 48) & 0xffff_ffff == MARK && linux.word(at + 40) == order
}

fn changed(from: &str, to: &str) -> Result<Vec<u64>, FreeListError> {
    let mut linux = small();
    let text = linux.text().replace(from, to);
    assert_ne!(text, linux.text(), "{from} is not in the note");
    linux.set_text(text);
    free_of(&linux)
}

#[test]
fn what_is_free_is_found_wherever_the_kernel_has_it() {
    for places in Places::ALL {
        let mut linux = SmallLinux::new(places, &RANGES);
        let first = linux.first_free();
        let used = |index| index % 7 == 3 || index > 400 && index % 3 == 0;
        assert_eq!(free_of(&linux), Ok((first..500).collect()), "{places:x?}");
        linux.free_all_but(used);
        let expected: Vec<u64> = (first..500).filter(|index| !used(*index)).collect();
        assert_eq!(free_of(&linux), Ok(expected), "{places:x?}");
        linux.free_all_but(|_| true);
        assert_eq!(free_of(&linux), Ok(vec![]), "{places:x?}");
    }
}

#[test]
fn offsets_of_symbols_may_count_from_their_own_places() {
    for places in Places::ALL {
        let linux = SmallLinux::with_offsets(places, &RANGES, Offsets::FromThemselves);
        let all = (linux.first_free()..500).collect();
        assert_eq!(free_of(&linux), Ok(all), "{places:x?}");
    }
}

#[test]
fn offsets_are_not_read_in_the_wrong_way() {
    // A base that is not named, and one that there is not: the number of
    // symbols and what follows is read for it.
    for (mut linux, from, to) in [
        (small(), "SYMBOL(kallsyms_relative_base)=", "SYMBOL(other)="),
        (
            newer(),
            "PAGESIZE",
            "SYMBOL(kallsyms_relative_base)=ffffffff80001800\nPAGESIZE",
        ),
        (
            newer(),
            "PAGESIZE",
            "SYMBOL(kallsyms_relative_base)=ffffffff80001808\nPAGESIZE",
        ),
    ] {
        let text = linux.text().replace(from, to);
        assert_ne!(text, linux.text());
        linux.set_text(text);
        assert!(matches!(free_of(&linux), Err(FreeListError::Misfit(_))));
    }
}

#[test]
fn a_table_with_one_wrong_offset_does_not_fit() {
    for mut linux in [small(), newer()] {
        // That of the kernel's root page table, the eleventh.
        let at = linux.symbol("_stext") + PAGE_BYTES + 40;
        let was = linux.word(at).to_le_bytes();
        for change in [8, 1 << 12, 1 << 31, u32::MAX] {
            let [a, b, c, d, ..] = was;
            let moved = u32::from_le_bytes([a, b, c, d]).wrapping_add(change);
            linux.memory.write(at, &moved.to_le_bytes());
            assert!(matches!(free_of(&linux), Err(FreeListError::Misfit(_))));
        }
        linux.memory.write(at, &was);
        assert!(free_of(&linux).is_ok());
    }
}

#[test]
fn a_kernel_with_one_node_only_names_it() {
    let mut linux = small();
    let node = linux.word(linux.symbol("node_data"));
    let text = linux
        .text()
        .replace("SYMBOL(node_online_map)=", "SYMBOL(other)=")
        + &format!("SYMBOL(contig_page_data)={node:x}\n");
    linux.set_text(text);
    assert!(free_of(&linux).is_ok_and(|free| free.len() > 300));
}

#[test]
fn kernels_before_6_11_mark_free_blocks_by_a_cleared_bit() {
    let mut linux = small();
    let first = linux.first_free();
    let text = linux
        .text()
        .replace("MAPCOUNT_VALUE)=-268435456", "MAPCOUNT_VALUE)=-129");
    linux.set_text(text);
    let old = (-129_i32).to_le_bytes();
    for index in first..500 {
        let at = linux.page_struct(index) + 48;
        if linux.word(at) & 0xffff_ffff == MARK {
            linux.memory.write(at, &old);
        }
    }
    assert_eq!(free_of(&linux), Ok((first..500).collect()));
}

#[test]
fn without_a_note_nothing_is_free() {
    let mut linux = small();
    linux.set_word(linux.note() + 16, 0);
    assert_eq!(free_of(&linux), Err(FreeListError::NoNote));
}

#[test]
fn a_kernel_without_the_function_says_so() {
    let mut linux = small();
    let find = |linux: &SmallLinux| suspend_start(linux.os(), &linux.space);
    let missing = FreeListError::NoSymbol("dpm_suspend_start");
    assert_eq!(find(&linux), Err(missing));
    linux.set_word(linux.note() + 16, 0);
    assert_eq!(find(&linux), Err(FreeListError::NoNote));
}

#[test]
fn only_the_kernels_own_note_counts() {
    let mut linux = small();
    let first = linux.first_free();
    // One in front of it that sends the page array elsewhere, and a copy.
    let forged = linux
        .text()
        .replace("SYMBOL(vmemmap)=f", "SYMBOL(vmemmap)=e");
    let note = linux.note();
    linux.memory.write(note, &[0; 4096]);
    let true_note = SmallLinux::note_bytes(linux.text());
    let own = linux.os().at(490).unwrap().address();
    let elsewhere = linux.word(linux.symbol("vmcoreinfo_note")) + own - note;
    linux.memory.write(own, &true_note);
    linux.set_word(linux.symbol("vmcoreinfo_note"), elsewhere);
    linux.free_all_but(|index| index >= 490);
    linux.memory.write(note, &SmallLinux::note_bytes(&forged));
    assert_eq!(free_of(&linux), Ok((first..490).collect()));
    // The same, by one that leads nowhere.
    let rubbish = SmallLinux::note_bytes("SYMBOL(kallsyms_names)=ffffffff80000000\n");
    linux.memory.write(note, &rubbish);
    assert_eq!(free_of(&linux), Ok((first..490).collect()));
}

#[test]
fn a_note_that_the_kernel_does_not_point_to_is_none() {
    let mut linux = small();
    let note = linux.note();
    let elsewhere = linux.word(linux.symbol("vmcoreinfo_note")) + 490 * PAGE_BYTES;
    linux.set_word(linux.symbol("vmcoreinfo_note"), elsewhere);
    assert!(free_of(&linux).is_err());
    linux.set_word(note, 0);
    assert!(free_of(&linux).is_err());
}

#[test]
fn too_many_notes_are_not_looked_into() {
    let mut linux = small();
    linux.set_word(linux.symbol("vmcoreinfo_note"), 0);
    let first = linux.first_free();
    for index in first..first + 8 {
        let at = linux.os().at(index).unwrap().address();
        linux.memory.write(at, &SmallLinux::note_bytes(""));
    }
    assert_eq!(free_of(&linux), Err(FreeListError::TooManyNotes));
}

#[test]
fn a_table_of_symbols_that_can_be_written_is_not_believed() {
    for linux in [small(), newer()] {
        refuses_written_tables(linux);
    }
}

fn refuses_written_tables(mut linux: SmallLinux) {
    let image = linux.symbol("_stext");
    for page in 1..4 {
        let at = 0xffff_ffff_8000_0000 + page * PAGE_BYTES;
        let physical = image + page * PAGE_BYTES;
        linux.space.map(at, physical, Rights::Write);
        assert!(matches!(free_of(&linux), Err(FreeListError::Symbols(_))));
        linux.space.map(at, physical, Rights::Read);
        assert!(free_of(&linux).is_ok());
        // Open to user mode.
        linux.space.map(at, physical, Rights::UserRead);
        assert!(matches!(free_of(&linux), Err(FreeListError::Nowhere(_))));
        linux.space.map(at, physical, Rights::Read);
    }
}

#[test]
fn a_note_must_say_everything_once_and_nothing_unknown() {
    for linux in [small(), newer()] {
        refuses_other_notes(linux);
    }
}

fn refuses_other_notes(mut linux: SmallLinux) {
    let text = linux.text().to_owned();
    for line in text.lines().filter(|line| !line.starts_with("OSRELEASE")) {
        let (key, _) = line.split_once('=').unwrap();
        let mut with = |changed: &str| {
            linux.set_text(text.replace(&format!("{line}\n"), changed));
            free_of(&linux)
        };
        assert!(with("").is_err(), "without {key}");
        assert!(with(&format!("{key}=?\n")).is_err(), "{key}=?");
        let twice = with(&format!("{line}\n{line}\n"));
        assert!(matches!(twice, Err(FreeListError::Twice(name)) if name == key));
        assert!(with(&format!("{line}\n")).is_ok());
    }
}

#[test]
fn layouts_that_cannot_be_are_refused() {
    for (from, to) in [
        ("PAGESIZE=4096", "PAGESIZE=16384"),
        ("SIZE(page)=64", "SIZE(page)=56"),
        ("SIZE(page)=64", "SIZE(page)=128"),
        ("SIZE(page)=64", "SIZE(page)=0"),
        ("SIZE(zone)=1024", "SIZE(zone)=64"),
        ("SIZE(zone)=1024", "SIZE(zone)=0"),
        ("SIZE(pglist_data)=4096", "SIZE(pglist_data)=1"),
        ("SIZE(free_area)=40", "SIZE(free_area)=48"),
        ("SIZE(nodemask_t)=8", "SIZE(nodemask_t)=4096"),
        ("OFFSET(page.lru)=8", "OFFSET(page.lru)=16"),
        ("OFFSET(page.lru)=8", "OFFSET(page.lru)=-8"),
        ("OFFSET(page._mapcount)=48", "OFFSET(page._mapcount)=40"),
        ("OFFSET(page._mapcount)=48", "OFFSET(page._mapcount)=4000"),
        ("OFFSET(page.private)=40", "OFFSET(page.private)=32"),
        ("LENGTH(zone.free_area)=11", "LENGTH(zone.free_area)=64"),
        ("LENGTH(zone.free_area)=11", "LENGTH(zone.free_area)=4"),
        ("VALUE)=-268435456", "VALUE)=-1"),
        ("VALUE)=-268435456", "VALUE)=0"),
        ("NR_FREE_PAGES)=0", "NR_FREE_PAGES)=1"),
        ("VMEMMAP_END)=0xff1c0001", "VMEMMAP_END)=0xff7c0001"),
        ("VMEMMAP_START)=0xff1c00000", "VMEMMAP_START)=0xff1c00001"),
    ] {
        let found = changed(from, to);
        assert!(found.is_err(), "{to}: {found:?}");
    }
}

#[test]
fn guarded_pages_are_left_alone() {
    for switch in ["_page_poisoning_enabled", "_debug_pagealloc_enabled"] {
        let mut linux = small();
        linux.set_word(linux.symbol(switch), 1);
        assert_eq!(free_of(&linux), Err(FreeListError::Guarded), "{switch}");
    }
}

#[test]
fn what_the_kernel_wants_in_free_pages_is_told() {
    for (switch, contents) in [(0, FreeContents::Anything), (1, FreeContents::Zeros)] {
        let mut linux = small();
        linux.set_word(linux.symbol("init_on_free"), switch);
        let mut room = [Page::ZERO];
        let mut map = PageMap::new(&mut room, linux.os().pages()).unwrap();
        let free = free_pages(linux.os(), &linux.space, &mut map).unwrap();
        assert_eq!(free.contents, contents);
    }
}

#[test]
fn counts_that_do_not_fit_are_refused() {
    let mut linux = small();
    let counts = linux.list(3, 2);
    let blocks = linux.word(counts);
    linux.set_word(counts, blocks + 1);
    assert!(matches!(
        free_of(&linux),
        Err(FreeListError::Blocks { order: 3, .. })
    ));
    linux.set_word(counts, blocks);
    // What one hart has not added yet may be missing.
    let pages = linux.list(11, 0);
    let free = linux.word(pages);
    linux.set_word(pages, free - 100);
    assert!(free_of(&linux).is_ok());
    linux.set_word(pages, free - 200);
    assert!(matches!(free_of(&linux), Err(FreeListError::Pages { .. })));
}

#[test]
fn blocks_that_are_none_are_refused() {
    let mut linux = small();
    let first = linux.first_free();
    let heads: Vec<u64> = (first..500)
        .filter(|index| (0..11).any(|order| is_marked(&linux, *index, order)))
        .collect();
    assert!(heads.len() > 8);
    for head in heads {
        let at = linux.page_struct(head);
        // In use after all; of another order; linked one way only.
        for (offset, value) in [(48, u64::MAX), (40, 12), (16, at), (8, at + 8)] {
            let was = linux.word(at + offset);
            linux.set_word(at + offset, value);
            assert!(free_of(&linux).is_err(), "block {head}, offset {offset}");
            linux.set_word(at + offset, was);
        }
        assert!(free_of(&linux).is_ok());
    }
}

/// The index of the head of a block of this order.
fn block_of(linux: &SmallLinux, order: u64) -> u64 {
    (linux.first_free()..500)
        .find(|index| is_marked(linux, *index, order))
        .expect("a block of this order")
}

#[test]
fn blocks_that_overlap_are_refused() {
    let mut linux = small();
    let block = block_of(&linux, 3);
    linux.link(block + 4, 2);
    assert!(matches!(free_of(&linux), Err(FreeListError::Block { .. })));
    // Nor may a block be listed twice.
    let mut linux = small();
    let block = block_of(&linux, 3);
    linux.link(block, 3);
    assert!(matches!(free_of(&linux), Err(FreeListError::Block { .. })));
}

#[test]
fn blocks_out_of_place_are_refused() {
    // Of a block of eight pages, the last seven, as if of four: not aligned.
    let mut linux = small();
    let block = block_of(&linux, 3);
    linux.free_all_but(|index| (block..block + 8).contains(&index));
    linux.link(block + 1, 2);
    assert!(matches!(free_of(&linux), Err(FreeListError::Block { .. })));
    // The very same, aligned, is one.
    linux.free_all_but(|index| (block..block + 8).contains(&index));
    let without = free_of(&linux).unwrap();
    linux.link(block + 4, 2);
    assert_eq!(free_of(&linux).unwrap().len(), without.len() + 4);
    // The last page of a range, and one behind it that is not OS memory.
    let mut linux = SmallLinux::new(Places::ALL[1], &RANGES);
    linux.free_all_but(|index| index == 298 || index == 299);
    let last = linux.os().at(299).unwrap().address() / PAGE_BYTES;
    linux.link(if last.is_multiple_of(2) { 299 } else { 298 }, 1);
    assert_eq!(free_of(&linux).is_err(), last.is_multiple_of(2));
}

#[test]
fn blocks_of_another_node_are_refused() {
    for (offset, change) in [(2056, 500), (2064, u64::MAX - 1), (2072, 1), (2048, 200)] {
        let mut linux = small();
        let at = linux.zone() + offset;
        linux.set_word(at, linux.word(at).wrapping_add(change));
        assert!(free_of(&linux).is_err(), "node's word at {offset}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is free is found, and nothing else.
    #[test]
    fn what_is_free_is_found(used in prop::collection::vec(any::<bool>(), 500)) {
        let mut linux = small();
        let first = linux.first_free();
        linux.free_all_but(|index| used[to_usize(index)]);
        let expected: Vec<u64> = (first..500).filter(|index| !used[to_usize(*index)]).collect();
        prop_assert_eq!(free_of(&linux), Ok(expected));
    }

    /// A note with any text, by whomever, does not make a page free that is in
    /// use: either the kernel's own is found all the same, or none.
    #[test]
    fn a_forged_note_frees_nothing(
        at in 0_usize..64,
        line in 0_usize..40,
        value in prop_oneof![any::<u64>(), 0_u64..4096, 0xffff_ffff_8000_0000..=u64::MAX],
        text in prop::option::of("[ -~\n]{0,4000}"),
        is_newer in any::<bool>(),
    ) {
        let mut linux = if is_newer { newer() } else { small() };
        let first = linux.first_free();
        linux.free_all_but(|index| index % 5 == 0 || index >= first && index < first + 64);
        let expected = free_of(&linux).unwrap();
        let forged = text.unwrap_or_else(|| {
            let lines: Vec<&str> = linux.text().lines().collect();
            let (key, _) = lines[line % lines.len()].split_once('=').unwrap();
            let forged = if key.starts_with("SYMBOL") {
                format!("{key}={value:x}")
            } else {
                format!("{key}={value:#x}")
            };
            linux.text().replace(lines[line % lines.len()], &forged)
        });
        let page = linux.os().at(first + at as u64).unwrap().address();
        // In the first of the pages in use, so that it is found before or behind
        // the true one.
        let bytes = SmallLinux::note_bytes(&forged);
        let room = linux.os().contains(page, bytes.len() as u64);
        prop_assume!(room);
        linux.memory.write(page, &bytes);
        prop_assert_eq!(free_of(&linux), Ok(expected));
    }

    /// The kernel's own memory, with words changed anywhere: never a panic, and
    /// no page is free that is in no block marked so.
    #[test]
    fn damage_frees_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0_u32..4), 1..6),
        is_newer in any::<bool>(),
    ) {
        let mut linux = if is_newer { newer() } else { small() };
        linux.free_all_but(|index| index % 5 == 0);
        let structs: Vec<u64> = (0..500).map(|index| linux.page_struct(index)).collect();
        let start = linux.os().at(0).unwrap().address();
        let words = to_usize(linux.first_free() * PAGE_BYTES / 8);
        for (place, value, kind) in changes {
            let at = start + place.index(words) as u64 * 8;
            let was = linux.word(at);
            linux.set_word(at, match kind {
                0 => value,
                1 => was ^ 1 << (value % 64),
                2 => was.wrapping_add(value % 256 * 8),
                _ => was & !0xff | value & 0xff,
            });
        }
        for index in free_of(&linux).unwrap_or_default() {
            let number = linux.os().at(index).unwrap().address() / PAGE_BYTES;
            let is_in_block = |order: u64| {
                let head = index.checked_sub(number % (1 << order));
                head.is_some_and(|head| {
                    let at = structs[to_usize(head)];
                    linux.word(at + 48) & 0xffff_ffff == MARK && linux.word(at + 40) == order
                })
            };
            prop_assert!((0..11).any(is_in_block), "page {}", index);
        }
    }
}
