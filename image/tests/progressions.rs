//! Pages that a few words make are not in the image, and come back.

mod common;

use common::{Free, MIB, Machine, Threads, key, page_of, pattern};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{FreeContents, Page, Progression, Run};
use proptest::prelude::*;

/// What a stretch of memory holds.
#[derive(Clone, Debug)]
enum Stretch {
    /// A table, of which every so manieth page was changed, and every so manieth
    /// cleared.
    Table(Progression, u64, u64),
    Pattern,
    Zero,
    Free,
}

fn stretch() -> impl Strategy<Value = (Stretch, u64)> {
    let words = || prop::array::uniform8(prop_oneof![Just(0u64), Just(64), any::<u64>()]);
    let table = (
        words(),
        words(),
        2u64..40,
        prop_oneof![Just(u64::MAX), 3u64..60],
    );
    let what = prop_oneof![
        4 => table.prop_map(|(row, step, odd, hole)| Stretch::Table(Progression { row, step }, odd, hole)),
        1 => Just(Stretch::Pattern),
        1 => Just(Stretch::Zero),
        1 => Just(Stretch::Free),
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
                    Stretch::Table(_, _, hole) if more % hole == hole - 1 => Page::ZERO,
                    Stretch::Table(table, odd, _) if more % odd != odd - 1 => page_of(&table.after(more)),
                    Stretch::Zero => Page::ZERO,
                    _ => pattern(at + more, 3),
                };
                zero += u64::from(page.is_zero());
                machine.memory.set(at + more, &page);
            }
            if matches!(stretch, Stretch::Free) {
                free.push(Run { first: at, pages: *pages });
            }
            at += pages;
        }
        let freed: u64 = free.iter().map(|run| run.pages).sum();
        machine.free = Some(Free(free.clone(), FreeContents::Anything));
        machine.key = sealed.then(|| key(1));
        machine.crew = Box::new(Threads(threads));
        machine.is_clear = is_clear;
        let before = machine.memory.contents();
        let mut medium = FakeMedium::new(10 * MIB);
        let saved = machine.save(&mut medium).unwrap();
        prop_assert!(machine.memory.contents() == before, "saving changes nothing");
        // Unless it is odd too often, a table is not saved but for its odd pages.
        let tables: u64 = stretches.iter().map(|(stretch, pages)| match stretch {
            Stretch::Table(table, odd, u64::MAX) if *odd > 8 && *pages >= 64 && !page_of(table).is_zero() => pages - pages / odd,
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
