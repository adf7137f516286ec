//! Free pages are not in the image, and a wake leaves no more of them as they
//! are than it may.

mod common;

use common::{Free, MIB, Machine, Threads, key, pattern};
use poorwill_medium::fake::{Effect, FakeMedium, Fault};
use poorwill_memory::{FreeContents, Page, Run};
use proptest::prelude::*;

/// Runs that lie apart, some long enough to be left alone.
fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = (1u64..200, prop_oneof![1u64..100, 500u64..900]);
    prop::collection::vec(run, 0..4).prop_map(|runs| {
        let mut at = 0;
        let apart = runs.into_iter().map(|(gap, pages)| {
            let first = at + gap;
            at = first + pages;
            Run { first, pages }
        });
        apart.collect()
    })
}

fn run_of(runs: &[Run], index: u64) -> Option<&Run> {
    runs.iter()
        .find(|run| (run.first..run.first + run.pages).contains(&index))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_in_use_comes_back(
        runs in runs(),
        rest in 1u64..300,
        sparse in 1u64..4,
        expects_zeros: bool,
        is_clear: bool,
        sealed: bool,
        threads in 0usize..3,
    ) {
        let pages = runs.last().map_or(0, |run| run.first + run.pages) + rest;
        let mut machine = Machine::filled(&[pages / 2 + 1, pages - pages / 2], |index| index % sparse == 0);
        machine.key = sealed.then(|| key(1));
        machine.workers = Box::new(Threads(threads));
        let contents = if expects_zeros { FreeContents::Zeros } else { FreeContents::Anything };
        machine.free = Some(Free(runs.clone(), contents));
        machine.is_clear = is_clear;
        let before = machine.memory.contents();
        let mut medium = FakeMedium::new(30 * MIB);
        let saved = machine.save(&mut medium).unwrap();
        prop_assert!(machine.memory.contents() == before, "saving changes nothing");
        let used = (0..).zip(&before).filter(|(index, page)| run_of(&runs, *index).is_none() && !page.is_zero());
        prop_assert_eq!(saved.saved_pages(), used.count() as u64);

        machine.fill(99, |_| true);
        machine.load(&mut medium, saved.header_checksum()).unwrap().unwrap();
        for (index, (found, before)) in (0..).zip(machine.memory.contents().iter().zip(&before)) {
            match run_of(&runs, index) {
                None => prop_assert!(found == before, "page {}", index),
                Some(run) if is_clear && !expects_zeros && run.pages >= 512 => {
                    prop_assert!(*found == pattern(index, 99), "page {} was written", index);
                }
                Some(_) => prop_assert!(found.is_zero(), "page {} was not cleared", index),
            }
        }
    }
}

#[test]
fn a_failed_save_gives_memory_back() {
    let mut machine = Machine::filled(&[3000], |index| index % 3 != 0).sealing();
    let free = vec![Run {
        first: 1000,
        pages: 1000,
    }];
    machine.free = Some(Free(free, FreeContents::Anything));
    let before: Vec<Page> = machine.memory.contents();
    for command in 0..12 {
        let mut medium = FakeMedium::new(30 * MIB);
        medium.inject(Fault::nth(command, Effect::Fail));
        if machine.save(&mut medium).is_err() {
            assert!(machine.memory.contents() == before, "write {command}");
        }
    }
}
