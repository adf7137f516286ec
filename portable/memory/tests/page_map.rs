//! The page map against a set of the standard library.

use std::collections::BTreeSet;
use std::convert::Infallible;

use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{Page, PageMap, PageMapError, PageWalk};
use proptest::prelude::*;

fn always() -> Result<(), Infallible> {
    Ok(())
}

/// Sizes around words and pages of map.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..200, 32760u64..32780, 65530u64..65540]
}

/// A size, and indices below it: alone, and in runs.
fn contents() -> impl Strategy<Value = (u64, BTreeSet<u64>)> {
    sizes().prop_flat_map(|pages| {
        let run = (0..pages.max(1), 1u64..300);
        prop::collection::vec(run, 0..8).prop_map(move |runs| {
            let indices = runs
                .into_iter()
                .flat_map(|(first, length)| first..first + length);
            (pages, indices.filter(|index| *index < pages).collect())
        })
    })
}

proptest! {
    #[test]
    fn is_a_set((pages, wanted) in contents()) {
        // Filled, so that a map that is not cleared shows.
        let mut room = vec![Page([!0; 512]); usize::try_from(PageMap::pages_needed(pages)).unwrap()];
        let mut map = PageMap::new(&mut room, pages).unwrap();
        for index in &wanted {
            map.insert(*index);
        }
        prop_assert_eq!(map.count(), wanted.len() as u64);
        prop_assert!(map.members().eq(wanted.iter().copied()));
        prop_assert!(map.others().eq((0..pages).filter(|index| !wanted.contains(index))));
        for index in 0..pages + 70 {
            prop_assert_eq!(map.contains(index), wanted.contains(&index));
        }
        prop_assert_eq!(map.try_count(always), Ok(wanted.len() as u64));
        let mut runs = Vec::new();
        map.try_each_run(|run| runs.push(run), always).unwrap();
        prop_assert!(runs.iter().flat_map(|run| run.first..run.first + run.pages).eq(wanted.iter().copied()));
        for pair in runs.windows(2) {
            prop_assert!(pair[0].first + pair[0].pages < pair[1].first, "runs are as long as can be");
        }
        let saved = PageMap::from_saved(&mut room, pages).unwrap();
        prop_assert!(saved.members().eq(wanted));
    }

    #[test]
    fn turns_into_its_opposite((pages, wanted) in contents(), single in 0u64..70_000) {
        let mut room = vec![Page([!0; 512]); usize::try_from(PageMap::pages_needed(pages)).unwrap()];
        let mut map = PageMap::new(&mut room, pages).unwrap();
        wanted.iter().for_each(|index| map.insert(*index));
        map.try_invert(always).unwrap();
        prop_assert!(map.members().eq((0..pages).filter(|index| !wanted.contains(index))));
        map.remove(single);
        prop_assert!(!map.contains(single));
        let next = (single..pages).find(|index| !wanted.contains(index) && *index != single);
        prop_assert_eq!(map.next(single), next);
        let end = single + 500;
        prop_assert_eq!(map.next_in(single..end), next.filter(|next| *next < end));
        map.try_invert(always).unwrap();
        let missing = wanted.iter().all(|index| map.contains(*index));
        prop_assert!(missing && map.count() <= wanted.len() as u64 + 1);
        prop_assert!(PageMap::from_saved(&mut room, pages).is_ok(), "nothing is set beyond the end");
    }

    #[test]
    fn refuses_bits_beyond_the_end(pages in sizes(), beyond in 0u64..70_000) {
        let mut room = vec![Page::ZERO; usize::try_from(PageMap::pages_needed(pages)).unwrap()];
        let bit = pages + beyond;
        if let Some(page) = room.get_mut(usize::try_from(bit / 32768).unwrap()) {
            page.0[usize::try_from(bit % 32768 / 64).unwrap()] |= 1 << (bit % 64);
            prop_assert_eq!(PageMap::from_saved(&mut room, pages).err(), Some(PageMapError::BeyondEnd(bit)));
        } else {
            prop_assert!(PageMap::from_saved(&mut room, pages).is_ok());
        }
    }

    #[test]
    fn walks_its_pages(ranges in prop::collection::vec(1u64..80, 1..5), wanted: [bool; 320]) {
        let mut memory = FakeMemory::new(&ranges);
        let os = &*memory.os();
        let mut room = [Page::ZERO];
        let mut map = PageMap::new(&mut room, os.pages()).unwrap();
        for index in (0..os.pages()).filter(|index| wanted[usize::try_from(*index).unwrap()]) {
            map.insert(index);
        }
        for (indices, kind) in [(map.members(), true), (map.others(), false)] {
            let mut walk = PageWalk::new(indices);
            for (index, page) in os.iter().filter(|(index, _)| map.contains(*index) == kind) {
                prop_assert_eq!(walk.clone().next(os), Some(page), "page {}", index);
                walk.next(os);
            }
            prop_assert_eq!(walk.next(os), None);
        }
    }
}

/// A map of three stretches, and how it is worked on.
fn heeds(work: impl Fn(&mut PageMap<'_>, &mut dyn FnMut() -> Result<(), ()>) -> Result<(), ()>) {
    for allowed in 0..5 {
        let mut room = [Page::ZERO];
        let mut map = PageMap::new(&mut room, 3 << 12).unwrap();
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            if asked > allowed { Err(()) } else { Ok(()) }
        };
        let ended = work(&mut map, &mut go_on);
        assert_eq!(ended.is_ok(), allowed >= 3);
        assert_eq!(asked, (allowed + 1).min(3));
    }
}

#[test]
fn goes_on_as_long_as_it_may() {
    heeds(|map, go_on| map.try_invert(go_on));
    heeds(|map, go_on| map.try_count(go_on).map(drop));
    heeds(|map, go_on| map.try_each_run(drop, go_on));
}

/// Each part of it once, which is soon done; a look from each part at all behind it is not.
#[test]
fn a_large_map_without_pages_is_passed_over_once() {
    const PAGES: u64 = 1 << 26;
    let mut room = vec![Page::ZERO; usize::try_from(PageMap::pages_needed(PAGES)).unwrap()];
    let map = PageMap::new(&mut room, PAGES).unwrap();
    let mut asked = 0;
    let go_on = || {
        asked += 1;
        always()
    };
    map.try_each_run(|run| panic!("{run:?}"), go_on).unwrap();
    assert_eq!(asked, PAGES >> 12);
}

#[test]
fn needs_one_page_for_128_mib() {
    assert_eq!(PageMap::pages_needed(0), 0);
    assert_eq!(PageMap::pages_needed(1), 1);
    assert_eq!(PageMap::pages_needed(32768), 1);
    assert_eq!(PageMap::pages_needed(32769), 2);
}

#[test]
fn says_how_much_room_it_needs() {
    let no_room = PageMapError::NoRoom {
        needed: 2,
        given: 1,
    };
    assert_eq!(PageMap::new(&mut [Page::ZERO], 32769).err(), Some(no_room));
    assert_eq!(
        PageMap::from_saved(&mut [Page::ZERO], 32769).err(),
        Some(no_room)
    );
}

#[test]
#[should_panic(expected = "page 5 of 5")]
fn takes_no_page_that_does_not_exist() {
    PageMap::new(&mut [Page::ZERO], 5).unwrap().insert(5);
}

proptest! {
    /// Runs go in as wholes, or not at all where one of their pages is there.
    #[test]
    fn runs_go_in_once(
        pages in 1_u64..400,
        runs in prop::collection::vec((0_u64..420, 0_u64..200), 0..20),
    ) {
        let mut room = vec![Page::ZERO; 1];
        let mut map = PageMap::new(&mut room, pages).unwrap();
        let mut wanted = BTreeSet::new();
        for (first, length) in runs {
            let run: Vec<u64> = (first..first + length).collect();
            let fits = run.iter().all(|index| *index < pages && !wanted.contains(index))
                && first + length <= pages;
            prop_assert_eq!(map.insert_new(first, length), fits);
            if fits {
                wanted.extend(run);
            } else {
                // Some of them may be in it: start again.
                map.clear();
                wanted.clear();
            }
            let members: Vec<u64> = map.members().collect();
            prop_assert_eq!(members, wanted.iter().copied().collect::<Vec<_>>());
        }
    }
}
