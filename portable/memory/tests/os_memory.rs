//! OS memory against a model that looks at every page by itself.

use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{
    MAX_RANGES, MemoryMap, MemoryMapError, OsMemory, PAGE_BYTES, Page, PageCursor, PhysRange,
};
use proptest::prelude::*;

/// Pages of the small address space that the model looks at.
const SPACE: u64 = 48;

fn os_memory(memory: &[PhysRange], reserved: &[PhysRange]) -> Result<OsMemory, MemoryMapError> {
    let map = MemoryMap::new(memory, reserved)?;
    // SAFETY: nothing in this file reads or writes what the value names.
    Ok(unsafe { OsMemory::new(map) })
}

/// Ranges that touch or overlap more often than not.
fn ranges(base: u64) -> impl Strategy<Value = Vec<PhysRange>> {
    let place = 0..SPACE * 4;
    let range = (place, 0u64..40).prop_map(move |(start, length)| {
        // Quarters of pages, some of them a byte off.
        let start = base + start * PAGE_BYTES / 4;
        PhysRange::new(
            start,
            (length * PAGE_BYTES / 4 + length % 3).min(base + SPACE * PAGE_BYTES - start),
        )
    });
    prop::collection::vec(range, 0..5)
}

fn whole_pages(range: &PhysRange, base: u64) -> Vec<u64> {
    (0..SPACE)
        .map(|page| base + page * PAGE_BYTES)
        .filter(|page| range.start <= *page && page + PAGE_BYTES <= range.end)
        .collect()
}

proptest! {
    #[test]
    fn is_what_a_look_at_every_page_says(
        (base, memory, reserved) in prop_oneof![Just(0), Just(0x8000_0000), Just(0u64.wrapping_sub((SPACE + 1) * PAGE_BYTES))]
            .prop_flat_map(|base| (Just(base), ranges(base), ranges(base))),
    ) {
        let mut wanted: Vec<u64> = memory.iter().flat_map(|range| whole_pages(range, base)).collect();
        wanted.sort_unstable();
        let overlap = wanted.windows(2).any(|pair| pair[0] == pair[1]);
        wanted.retain(|page| {
            let page = PhysRange::new(*page, PAGE_BYTES);
            !reserved.iter().any(|hole| hole.length() > 0 && hole.overlaps(&page))
        });
        match os_memory(&memory, &reserved) {
            Err(MemoryMapError::Overlap(_)) => prop_assert!(overlap),
            Err(MemoryMapError::Empty) => prop_assert!(!overlap && wanted.is_empty()),
            Err(MemoryMapError::TooManyRanges) => prop_assert!(false, "there are never so many"),
            Ok(os) => {
                prop_assert!(!overlap);
                let found: Vec<u64> = os.iter().map(|(_, page)| page.address()).collect();
                prop_assert_eq!(&found, &wanted);
                prop_assert_eq!(os.pages(), wanted.len() as u64);
                let mut cursor = PageCursor::new();
                for (index, page) in os.iter() {
                    prop_assert_eq!(os.at(index), Some(page));
                    prop_assert_eq!(cursor.seek(&os, index), Some(page));
                    prop_assert!(os.contains(page.address(), PAGE_BYTES));
                }
                prop_assert_eq!(os.at(os.pages()), None);
                for split in [0, base + 7 * PAGE_BYTES + 1, base + SPACE / 2 * PAGE_BYTES, u64::MAX] {
                    let (below, above): (Vec<u64>, _) = wanted
                        .iter()
                        .partition(|page| **page + PAGE_BYTES <= split);
                    let found = os.iter_from(split).map(|page| page.address());
                    prop_assert!(found.eq([above, below].concat()));
                }
                prop_assert_eq!(cursor.seek(&os, os.pages()), None);
                for pair in os.ranges().windows(2) {
                    prop_assert!(pair[0].end < pair[1].start, "neighbours are one range");
                }
            }
        }
    }
}

#[test]
fn cursor_may_skip_ranges() {
    let ranges: Vec<_> = (0..8)
        .map(|n| PhysRange::new(n * 0x10000, (n + 1) * PAGE_BYTES))
        .collect();
    let os = os_memory(&ranges, &[]).unwrap();
    for step in 1..36 {
        let mut cursor = PageCursor::new();
        for index in (0..36).step_by(step) {
            assert_eq!(cursor.seek(&os, index), os.at(index));
        }
    }
}

#[test]
fn holds_so_many_ranges_and_no_more() {
    let ranges: Vec<_> = (0..=MAX_RANGES as u64)
        .map(|n| PhysRange::new(n * 0x10000, PAGE_BYTES))
        .collect();
    assert!(MemoryMap::new(&ranges[1..], &[]).is_ok());
    assert_eq!(
        MemoryMap::new(&ranges, &[]),
        Err(MemoryMapError::TooManyRanges)
    );
}

#[test]
fn what_is_left_out_is_installed_nevertheless() {
    let memory = [
        PhysRange::new(0x1000, 0x3000),
        PhysRange::new(0x4000, 0x1000),
    ];
    let map = MemoryMap::new(&memory, &[PhysRange::new(0x2000, 0x1000)]).unwrap();
    for range in [(0x2000, 0x1000), (0x1000, 0x4000), (0x3000, 0x2000)] {
        let range = PhysRange::new(range.0, range.1);
        assert!(map.is_installed(&range), "{range:x?}");
    }
    for range in [(0, 0x2000), (0x4000, 0x1001), (0x5000, 0x1000)] {
        let range = PhysRange::new(range.0, range.1);
        assert!(!map.is_installed(&range), "{range:x?}");
    }
}

#[test]
fn contains_knows_ends_and_overflow() {
    let os = os_memory(
        &[PhysRange::new(0x1000, 0x3000)],
        &[PhysRange::new(0x2800, 1)],
    )
    .unwrap();
    assert_eq!(
        os.ranges(),
        [
            PhysRange::new(0x1000, 0x1000),
            PhysRange::new(0x3000, 0x1000)
        ]
    );
    assert!(os.contains(0x1000, 0x1000));
    assert!(!os.contains(0x1000, 0x1001));
    assert!(!os.contains(0xfff, 2));
    assert!(!os.contains(0x1fff, 0x1002));
    assert!(!os.contains(0x3000, u64::MAX));
}

#[test]
fn zeroing_changes_one_page() {
    let mut memory = FakeMemory::new(&[2, 2]);
    for index in 0..4 {
        memory.set(index, &Page([index + 1; 512]));
    }
    let page = memory.os().at(2).unwrap();
    memory.os().zero(page);
    let contents = memory.contents();
    assert!(contents[2].is_zero());
    for index in [0, 1, 3] {
        assert_eq!(contents[index], Page([index as u64 + 1; 512]));
    }
    assert!(memory.gaps_are_intact());
}

#[test]
fn every_single_bit_makes_a_page_not_zero() {
    assert!(Page::ZERO.is_zero());
    for word in 0..512 {
        for bit in 0..64 {
            let mut page = Page::ZERO;
            page.0[word] = 1 << bit;
            assert!(!page.is_zero());
        }
    }
}

#[test]
fn addresses_and_indices_are_each_others() {
    let mut memory = FakeMemory::new(&[3, 1, 2]);
    let os = memory.os();
    let first = os.at(0).unwrap().address();
    for (index, page) in os.iter() {
        assert_eq!(os.index_of(page), index);
        for offset in [0, 1, PAGE_BYTES - 1] {
            assert_eq!(os.page_at(page.address() + offset), Some(page));
        }
    }
    for gap in [first - 1, first + 3 * PAGE_BYTES, u64::MAX, 0] {
        assert_eq!(os.page_at(gap), None);
    }
}
