//! The free pages of real kernels, over what is kept of their memory: one file
//! in `dumps/` for each layout that is known.

use poorwill_memory::fake::{Dump, SmallLinux};
use poorwill_memory::linux::{FreeListError, KNOWN_VERSIONS, free_pages, suspend_start};
use poorwill_memory::{FreeContents, Page, PageMap, to_usize};

const RANGES: [u64; 2] = [900, 200];
const PAGES: u64 = RANGES[0] + RANGES[1];

const DUMPS: [(&str, &str); 2] = [
    ("6.12.107", include_str!("dumps/linux-6.12.107.txt")),
    ("7.2.11", include_str!("dumps/linux-7.2.11.txt")),
];

fn free_of(linux: &SmallLinux) -> Result<(Vec<u64>, FreeContents), FreeListError> {
    let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(PAGES))];
    let mut map = PageMap::new(&mut room, PAGES).unwrap();
    let free = free_pages(linux.os(), &linux.space, &mut map)?;
    Ok((map.members().collect(), free.contents))
}

#[test]
fn the_newest_version_that_is_known_is_one_of_them() {
    let (major, minor) = *KNOWN_VERSIONS.end();
    let newest = format!("{major}.{minor}.");
    assert!(
        DUMPS
            .iter()
            .any(|(version, _)| version.starts_with(&newest))
    );
}

#[test]
fn what_is_free_is_found_in_each() {
    for (version, text) in DUMPS {
        let mut linux = SmallLinux::dumped(&Dump::read(text), &RANGES);
        let first = linux.first_free();
        let all = (first..PAGES).collect();
        assert_eq!(
            free_of(&linux),
            Ok((all, FreeContents::Anything)),
            "{version}"
        );
        let used = |index| index % 7 == 3 || index > 1000 && index % 3 == 0;
        linux.free_all_but(used);
        let some = (first..PAGES).filter(|index| !used(*index)).collect();
        assert_eq!(
            free_of(&linux),
            Ok((some, FreeContents::Anything)),
            "{version}"
        );
    }
}

#[test]
fn the_switches_of_each_are_found() {
    for (version, text) in DUMPS {
        let mut linux = SmallLinux::dumped(&Dump::read(text), &RANGES);
        let free = |linux: &SmallLinux| free_of(linux).map(|(_, contents)| contents);
        let with = |linux: &mut SmallLinux, switch, value| {
            let at = linux.symbol(switch);
            linux.memory.write(at, &u32::to_le_bytes(value));
        };
        with(&mut linux, "init_on_free", 1);
        assert_eq!(free(&linux), Ok(FreeContents::Zeros), "{version}");
        with(&mut linux, "init_on_free", 0);
        with(&mut linux, "_page_poisoning_enabled", 1);
        assert_eq!(free(&linux), Err(FreeListError::Guarded), "{version}");
    }
}

#[test]
fn a_table_that_is_read_in_another_way_does_not_fit() {
    for (version, text) in DUMPS {
        let dump = Dump::read(text);
        let mut linux = SmallLinux::dumped(&dump, &RANGES);
        const KEY: &str = "SYMBOL(kallsyms_relative_base)";
        let other = if dump.note.contains(KEY) {
            dump.note.replace(KEY, "SYMBOL(another)")
        } else {
            // Something that can be read: the tokens.
            let (_, rest) = dump
                .note
                .split_once("SYMBOL(kallsyms_token_table)=")
                .unwrap();
            dump.note.clone() + &format!("{KEY}={}\n", &rest[..16])
        };
        linux.set_text(other);
        let found = free_of(&linux);
        assert!(
            matches!(found, Err(FreeListError::Misfit(_))),
            "{version}: {found:?}"
        );
    }
}

#[test]
fn the_function_that_suspends_devices_is_found_in_each() {
    let starts = [0xffff_ffff_8075_9fde, 0xffff_ffff_8097_ec98];
    for ((version, text), start) in DUMPS.into_iter().zip(starts) {
        let linux = SmallLinux::dumped(&Dump::read(text), &RANGES);
        assert_eq!(
            suspend_start(linux.os(), &linux.space),
            Ok(start),
            "{version}"
        );
    }
}
