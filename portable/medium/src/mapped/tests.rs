//! The driver over memory that keeps only what it was told to.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

use proptest::prelude::*;

use poorwill_memory::{PAGE_BYTES, Page, PhysRange};

use super::fake::{FakePmem, INJECTED_STATUS};
use super::{DEPTH, MAX_PAGES, MappedError, MappedMemory};
use crate::contract::{self, MEDIUM_PAGES, Pages, operations};
use crate::{Direction, Medium, MediumError};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written is read again.
    #[test]
    fn transfers_equal_a_plain_buffer(operations in operations()) {
        let pmem = FakePmem::new(MEDIUM_PAGES);
        let expected = contract::run(pmem.medium(), 9, operations);
        prop_assert!(pmem.bytes() == expected);
    }

    /// Whatever was written before a flush survives a power cut, and a page
    /// that was written behind it is old or new, line by line.
    #[test]
    fn what_was_flushed_survives(
        operations in operations(),
        at in 0..MEDIUM_PAGES as u64 - 1,
        seed: u64,
    ) {
        let pmem = FakePmem::new(MEDIUM_PAGES);
        let mut expected = contract::run(pmem.medium(), 9, operations);
        let mut medium = pmem.medium();
        medium.flush().unwrap();
        prop_assert!(pmem.durable() == expected);
        let offset = at * PAGE_BYTES + 512;
        medium.write(offset, &[Page([seed | 1; 512])]).unwrap();
        pmem.seed(seed);
        pmem.cut_power();
        let after = pmem.bytes();
        let page = offset as usize..(offset + PAGE_BYTES) as usize;
        let new = [(seed | 1).to_ne_bytes(); 8].concat();
        for (after, before) in after[page.clone()].chunks(64).zip(expected[page.clone()].chunks(64)) {
            prop_assert!(after == before || after == new);
        }
        expected[page.clone()].copy_from_slice(&after[page]);
        prop_assert!(after == expected, "only that page has changed");
    }
}

#[test]
fn started_and_awaited_transfers_mix() {
    contract::started_and_awaited_transfers_mix(FakePmem::new(64).medium());
}

#[test]
fn what_does_not_fit_is_refused() {
    contract::what_does_not_fit_is_refused(FakePmem::new(MAX_PAGES + 1).medium());
}

#[test]
fn a_transfer_has_moved_when_it_is_started() {
    let pmem = FakePmem::new(DEPTH);
    let pages = Pages::new(2);
    pages.fill(0, 5);
    let mut medium = pmem.medium();
    let page = |index| [pages.at(index)];
    medium.start(Direction::Write, 0, &page(0), 1).unwrap();
    medium.start(Direction::Read, 0, &page(1), 2).unwrap();
    assert!(pages.bytes(1) == pages.bytes(0));
    assert!(pmem.durable().iter().all(|byte| *byte == 0), "not flushed");
}

#[test]
fn memory_that_is_no_medium_is_refused() {
    let refused = |start, length| {
        // SAFETY: it is refused, and never used.
        unsafe { MappedMemory::new(PhysRange::new(start, length)) }.err()
    };
    assert_eq!(refused(0x1200, 8192), Some(MappedError::Misaligned(0x1200)));
    assert_eq!(refused(0x1000, 4095), Some(MappedError::TooSmall(4095)));
    let upside_down = PhysRange {
        start: 0x2000,
        end: 0x1000,
    };
    // SAFETY: as above.
    let upside_down = unsafe { MappedMemory::new(upside_down) };
    assert_eq!(upside_down.err(), Some(MappedError::TooSmall(0)));

    let pmem = FakePmem::new(1);
    // SAFETY: the words live as long as the test.
    let memory = unsafe { MappedMemory::new(pmem.range()) }.unwrap();
    pmem.pull_out();
    let absent = super::MappedMedium::new(memory, &pmem).err();
    assert_eq!(absent, Some(MappedError::Absent(pmem.range().start)));
}

#[test]
fn a_device_that_is_pulled_out_is_told() {
    let pmem = FakePmem::new(4);
    let mut medium = pmem.medium();
    let mut page = [Page([u64::MAX; 512])];
    medium.write(0, &page).unwrap();
    assert_eq!(medium.read(0, &mut page), Ok(()), "all ones may be written");
    assert_eq!(medium.flush(), Ok(()));
    medium.write(PAGE_BYTES, &page).unwrap();
    pmem.pull_out();
    assert_eq!(medium.read(0, &mut page), Err(MediumError::Absent));
    assert_eq!(medium.flush(), Err(MediumError::Absent));
    let pages = Pages::new(1);
    let started = medium.start(Direction::Read, 0, &[pages.at(0)], 1);
    assert_eq!(started, Err(MediumError::Absent));
    assert_eq!(medium.poll(), Ok(None));
}

#[test]
fn a_device_that_keeps_nothing_is_told() {
    let pmem = FakePmem::new(4);
    let mut medium = pmem.medium();
    medium.write(0, &[Page([1; 512])]).unwrap();
    pmem.refuse_to_settle();
    assert_eq!(medium.flush(), Err(MediumError::Flush(INJECTED_STATUS)));
    assert!(pmem.durable().iter().all(|byte| *byte == 0));
}

/// Several harts may work on different blocks at once.
#[test]
fn media_over_the_same_memory_do_not_disturb_each_other() {
    let pmem = FakePmem::new(64);
    std::thread::scope(|scope| {
        for hart in 0..4u64 {
            let pmem = &pmem;
            scope.spawn(move || {
                let mut medium = pmem.medium();
                for page in (hart..64).step_by(4) {
                    let offset = page * PAGE_BYTES;
                    medium.write(offset, &[Page([page + 1; 512])]).unwrap();
                }
                medium.flush().unwrap();
            });
        }
    });
    for (page, bytes) in pmem.durable().chunks(4096).enumerate() {
        let word = (page as u64 + 1).to_ne_bytes();
        assert!(bytes.chunks(8).all(|bytes| bytes == word));
    }
}
