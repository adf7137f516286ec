//! Pages that a few words make are not in the image, and come back.

mod common;

use common::{Free, MIB, Machine, Threads, key, page_of, pattern};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{FreeContents, Page, Run, StridedFill};
use proptest::prelude::*;

/// What a stretch of memory holds.
#[derive(Clone, Debug)]
enum ScanBlock {
    /// A table, of which every so manieth page was changed, and every so manieth
    /// cleared.
    Table(StridedFill, u64, u64),
    Pattern,
    Zero,
    Free,
}

fn stretch() -> impl Strategy<Value = (ScanBlock, u64)> {
    let words = || prop::array::uniform8(prop_oneof![Just(0u64), Just(64), any::<u64>()]);
    let table = (
        words(),
        words(),
        2u64..40,
        prop_oneof![Just(u64::MAX), 3u64..60],
    );
    let what = prop_oneof![
        4 => table.prop_map(|(row, step, odd, hole)| ScanBlock::Table(StridedFill { row, step }, odd, hole)),
        1 => Just(ScanBlock::Pattern),
        1 => Just(ScanBlock::Zero),
        1 => Just(ScanBlock::Free),
    ];
    (what, 1u64..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn tables_come_back(
        stretches in prop::collection::vec(stretch(), 1..9),
        is_clear: bool,
        sealed: bool,
        threads in 0usize..3,
    ) {
        let pages: u64 = stretches.iter().map(|(_, pages)| pages).sum();
        let mut machine = Machine::new(&[pages / 2 + 1, pages - pages / 2]);
        let (mut at, mut free) = (0, Vec::new());
        let mut zero = 0;
        for (stretch, pages) in &stretches {
            for more in 0..*pages {
                let page = match stretch {
                    ScanBlock::Table(_, _, hole) if more % hole == hole - 1 => Page::ZERO,
                    ScanBlock::Table(table, odd, _) if more % odd != odd - 1 => page_of(&table.after(more)),
                    ScanBlock::Zero => Page::ZERO,
                    _ => pattern(at + more, 3),
                };
                zero += u64::from(page.is_zero());
                machine.memory.set(at + more, &page);
            }
            if matches!(stretch, ScanBlock::Free) {
                free.push(Run { first: at, pages: *pages });
            }
            at += pages;
        }
        let freed: u64 = free.iter().map(|run| run.pages).sum();
        machine.free = Some(Free(free.clone(), FreeContents::Anything));
        machine.key = sealed.then(|| key(1));
        machine.workers = Box::new(Threads(threads));
        machine.is_clear = is_clear;
        let before = machine.memory.contents();
        let mut medium = FakeMedium::new(10 * MIB);
        let saved = machine.save(&mut medium).unwrap();
        prop_assert!(machine.memory.contents() == before, "saving changes nothing");
        // Unless it is odd too often, a table is not saved but for its odd pages.
        let tables: u64 = stretches.iter().map(|(stretch, pages)| match stretch {
            ScanBlock::Table(table, odd, u64::MAX) if *odd > 8 && *pages >= 64 && !page_of(table).is_zero() => pages - pages / odd,
            _ => 0,
        }).sum();
        prop_assert!(saved.saved_pages() <= pages + 1 - freed - zero - tables);

        machine.fill(99, |_| true);
        machine.load(&mut medium, saved.header_checksum()).unwrap().unwrap();
        let is_free = |index| free.iter().any(|run| (run.first..run.first + run.pages).contains(&index));
        for (index, (found, before)) in (0..).zip(machine.memory.contents().iter().zip(&before)) {
            prop_assert!(is_free(index) || found == before, "page {}", index);
        }
    }
}

#[test]
fn a_table_costs_its_entry() {
    let mut machine = Machine::new(&[2000]);
    machine.fill_table(0..2000);
    let before = machine.memory.contents();
    let mut medium = FakeMedium::new(2 * MIB);
    let saved = machine.save(&mut medium).unwrap();
    assert_eq!(saved.saved_pages(), 0);
    machine.fill(99, |_| true);
    let loaded = machine.load(&mut medium, saved.header_checksum());
    loaded.unwrap().unwrap();
    assert!(machine.memory.contents() == before);
}

/// The digests of a memory as large as this have room that a save with so little in use
/// does not need: what harts find ahead is kept there meanwhile.
#[test]
fn a_table_behind_much_that_is_free_comes_back() {
    const PAGES: u64 = 66_000;
    let (used, free, table) = (0..1500, 1500..64_000, 64_000..PAGES);
    let mut machine = Machine::new(&[PAGES]);
    machine.fill_table(table.clone());
    let saved = used.clone().chain(table.clone().step_by(16));
    for index in saved.clone() {
        machine.memory.set(index, &pattern(index, 3));
    }
    let run = Run {
        first: free.start,
        pages: free.end - free.start,
    };
    machine.free = Some(Free(vec![run], FreeContents::Anything));
    machine.workers = Box::new(Threads(2));
    let contents = |machine: &mut Machine| -> Vec<Page> {
        let os = machine.memory.os();
        let in_use = used.clone().chain(table.clone());
        in_use
            .map(|index| os.page(os.at(index).unwrap()).clone())
            .collect()
    };
    let before = contents(&mut machine);
    let mut medium = FakeMedium::new(10 * MIB);
    let image = machine.save(&mut medium).unwrap();
    assert_eq!(image.saved_pages(), saved.count() as u64);
    machine.fill(99, |_| true);
    let loaded = machine.load(&mut medium, image.header_checksum());
    loaded.unwrap().unwrap();
    assert!(contents(&mut machine) == before);
}
