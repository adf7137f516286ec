//! The free pages of a stopped Linux: a program's forged notes change nothing,
//! and whatever the kernel's own memory holds, no page is free that is in no
//! block marked so.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::{Cases, Input};
use poorwill_hart::fake::page_tables;
use poorwill_hart::{Mode, PageTables};
use poorwill_memory::fake::{Offsets, Places, SmallLinux};
use poorwill_memory::linux::{FreeListError, free_pages, suspend_start};
use poorwill_memory::{PAGE_BYTES, Page, PageMap, to_usize};

poorwill_fuzz::target!(max_len = 4096, run);

const RANGES: [u64; 2] = [160, 90];
const PAGES: u64 = RANGES[0] + RANGES[1];

/// Pages that a program has, behind the kernel's.
const PROGRAM: u64 = 8;

/// What marks a free block.
const MARK: u64 = 0xf000_0000;

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let kind = to_usize(input.below(6));
    let mode = [Mode::Sv57, Mode::Sv48, Mode::Sv39][kind % 3];
    let [small, middle, large] = Places::ALL;
    let places = [large, middle, small][kind % 3];
    let offsets = [Offsets::FromBase, Offsets::FromThemselves][kind / 3];
    let mut linux = SmallLinux::with_offsets(places, &RANGES, offsets);
    let tables = page_tables(&mut linux, mode);
    let first = linux.first_free();
    let pattern: u64 = input.any();
    linux.free_all_but(|index| index < first + PROGRAM || pattern >> (index % 61) & 1 == 1);
    let truth = free(&linux, tables).expect("a Linux as it should be");
    for place in 0..input.below(PROGRAM) {
        let note = SmallLinux::note_bytes(&forged(&mut input, linux.text()));
        let at = linux.os().at(first + place).expect("a page").address();
        linux
            .memory
            .write(at, &note[..note.len().min(to_usize(PAGE_BYTES))]);
    }
    assert_eq!(
        free(&linux, tables).as_ref(),
        Ok(&truth),
        "a forged note counts"
    );
    damage(&mut input, &mut linux, tables);
}

/// The true note's text with a line changed, or any text.
fn forged(input: &mut Input<'_>, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let line = lines[to_usize(input.below(lines.len() as u64))];
    let (key, _) = line.split_once('=').expect("a key");
    let value = match input.below(3) {
        0 => input.edgy(),
        1 => 0xffff_ffff_8000_0000 + input.below(0x7000),
        _ => return String::from_utf8_lossy(&input.any::<[u8; 32]>()).into_owned(),
    };
    if key.starts_with("SYMBOL") {
        text.replace(line, &format!("{key}={value:x}"))
    } else {
        text.replace(line, &format!("{key}={value:#x}"))
    }
}

/// Changes words of the kernel's memory.
fn damage(input: &mut Input<'_>, linux: &mut SmallLinux, tables: PageTables) {
    let structs: Vec<u64> = (0..PAGES).map(|index| linux.page_struct(index)).collect();
    let notes = linux.note()..linux.note() + 2 * PAGE_BYTES;
    for _ in 0..=input.below(6) {
        let index = input.below(linux.first_free());
        let at = linux.os().at(index).expect("a page").address() + input.below(512) * 8;
        // The true note's numbers are the kernel's word: who changes them there
        // may well say that other pages are free.
        if notes.contains(&at) {
            continue;
        }
        let was = linux.word(at);
        let value = match input.below(4) {
            0 => input.edgy(),
            1 => was ^ 1 << input.below(64),
            2 => was.wrapping_add(input.below(256) * 8),
            _ => linux.word(at ^ 8 << input.below(9)),
        };
        linux.set_word(at, value);
    }
    for index in free(linux, tables).unwrap_or_default() {
        let number = linux.os().at(index).expect("a page").address() / PAGE_BYTES;
        let is_in_block = |order: u64| {
            let head = index.checked_sub(number % (1 << order));
            head.is_some_and(|head| {
                let at = structs[to_usize(head)];
                linux.word(at + 48) & 0xffff_ffff == MARK && linux.word(at + 40) == order
            })
        };
        assert!((0..11).any(is_in_block), "page {index} is in no free block");
    }
}

fn free(linux: &SmallLinux, tables: PageTables) -> Result<Vec<u64>, FreeListError> {
    let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(PAGES))];
    let mut map = PageMap::new(&mut room, PAGES).expect("enough room");
    let found = free_pages(linux.os(), &tables, &mut map);
    if let Ok(start) = suspend_start(linux.os(), &tables) {
        assert!(start >= 0xffff_ffff_8000_0000, "in the image");
    }
    let members: Vec<u64> = map.members().collect();
    let pages = found.map_or(0, |free| free.pages);
    assert_eq!(pages, members.len() as u64);
    found.map(|_| members)
}
