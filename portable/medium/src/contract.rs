//! Tests that every medium must pass.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

use proptest::prelude::*;

use poorwill_memory::{MemoryMap, OsMemory, OsPage, PAGE_BYTES, Page, PhysRange};

use crate::{Direction, Medium, MediumError};

/// The length of the medium under test in pages.
pub(crate) const MEDIUM_PAGES: usize = 160;
/// The pages of memory for transfers.
pub(crate) const MEMORY_PAGES: usize = 96;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Write {
        block: usize,
        pages: usize,
        value: u64,
    },
    Read {
        block: usize,
        pages: usize,
    },
    /// Concurrent transfers: direction, first block, pages of memory.
    Gather(Vec<(bool, usize, Vec<usize>)>),
    Flush,
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let block = 0..MEDIUM_PAGES * 8;
    let gather = (
        any::<bool>(),
        block.clone(),
        prop::collection::vec(0..MEMORY_PAGES, 1..20),
    );
    let operation = prop_oneof![
        (block.clone(), 0..MEDIUM_PAGES, any::<u64>()).prop_map(|(block, pages, value)| {
            Operation::Write {
                block,
                pages,
                value,
            }
        }),
        (block, 0..MEDIUM_PAGES).prop_map(|(block, pages)| Operation::Read { block, pages }),
        prop::collection::vec(gather, 1..40).prop_map(Operation::Gather),
        Just(Operation::Flush),
    ];
    prop::collection::vec(operation, 1..8)
}

/// Runs operations on a medium of [`MEDIUM_PAGES`] zeros and on a plain buffer. Returns
/// the buffer's contents.
pub(crate) fn run(medium: impl Medium, block_shift: u32, operations: Vec<Operation>) -> Vec<u8> {
    let pages = Pages::new(MEMORY_PAGES);
    let mut test = Test {
        medium,
        expected: vec![0; MEDIUM_PAGES * 4096],
        memory: &pages,
        block_shift,
    };
    for operation in operations {
        test.run(operation);
    }
    test.expected
}

/// Blocking transfers work while other transfers are in progress.
pub(crate) fn started_and_awaited_transfers_mix(mut medium: impl Medium) {
    let pages = Pages::new(4);
    let mut tags = Vec::new();
    let mut into = vec![Page::ZERO; 32];
    for tag in 0..4 {
        pages.fill(tag, tag as u64 + 1);
        while tag - tags.len() == medium.depth() {
            tags.extend(medium.poll().unwrap());
        }
        let (offset, page) = (tag as u64 * 4096, pages.at(tag));
        medium
            .start(Direction::Write, offset, &[page], tag as u32)
            .unwrap();
        medium.read(8 * 4096, &mut into).unwrap();
    }
    medium.flush().unwrap();
    while tags.len() < 4 {
        tags.extend(medium.poll().unwrap());
    }
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2, 3]);
    medium.read(0, &mut into[..4]).unwrap();
    let written: Vec<u8> = (0..4).flat_map(|page| pages.bytes(page)).collect();
    assert!(bytes_of(&into[..4]) == written);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_fake_equals_a_plain_buffer(operations in operations(), seed: u64) {
        let mut fake = crate::fake::FakeMedium::new(MEDIUM_PAGES as u64 * PAGE_BYTES)
            .with_seed(seed);
        let expected = run(&mut fake, 9, operations);
        prop_assert!(fake.bytes() == expected);
    }
}

/// Invalid transfers are refused before any data moves.
pub(crate) fn what_does_not_fit_is_refused(mut medium: impl Medium) {
    let most = medium.max_pages();
    let pages = Pages::new(most + 1);
    let list: Vec<OsPage> = (0..=most).map(|index| pages.at(index)).collect();
    let capacity = medium.capacity();
    let mut page = [Page([7; 512])];
    let beyond = |offset: u64| {
        let end = offset.saturating_add(PAGE_BYTES);
        Err(MediumError::OutOfRange { offset, end })
    };
    for offset in [capacity, capacity - 512, u64::MAX - 511] {
        assert_eq!(medium.read(offset, &mut page), beyond(offset));
        assert_eq!(medium.write(offset, &page), beyond(offset));
        let started = medium.start(Direction::Write, offset, &list[..1], 1);
        assert_eq!(started, beyond(offset));
    }
    assert_eq!(page[0].0, [7; 512]);
    assert_eq!(medium.write(1, &page), Err(MediumError::Misaligned(1)));
    for list in [&list[..0], &list] {
        let started = medium.start(Direction::Read, 0, list, 1);
        assert_eq!(started, Err(MediumError::TooMany));
    }
    for tag in 0..medium.depth() {
        medium
            .start(Direction::Read, 0, &list[tag..=tag], tag as u32)
            .unwrap();
    }
    let started = medium.start(Direction::Read, 0, &list[..1], 1);
    assert_eq!(started, Err(MediumError::TooMany));
    medium.quiesce();
    assert_eq!(medium.poll(), Ok(None));
    medium.start(Direction::Read, 0, &list[..1], 9).unwrap();
    while medium.poll().unwrap() != Some(9) {}
}

fn pages_of(bytes: &[u8]) -> Vec<Page> {
    let words = |page: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(page[8 * at..8 * at + 8].try_into().unwrap());
        Page(std::array::from_fn(word))
    };
    bytes.chunks(4096).map(words).collect()
}

pub(crate) fn bytes_of(pages: &[Page]) -> Vec<u8> {
    pages
        .iter()
        .flat_map(|page| page.0.iter().flat_map(|word| word.to_le_bytes()))
        .collect()
}

struct Test<'a, M> {
    medium: M,
    /// The expected contents of the disk.
    expected: Vec<u8>,
    memory: &'a Pages,
    block_shift: u32,
}

impl<M: Medium> Test<'_, M> {
    /// The byte offset of a block, and how many of `pages` fit there.
    fn place(&self, block: usize, pages: usize) -> (usize, usize) {
        let offset = (block << self.block_shift) % (self.expected.len() - 4096);
        (offset, pages.min((self.expected.len() - offset) / 4096))
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Write {
                block,
                pages,
                value,
            } => {
                let (offset, pages) = self.place(block, pages);
                let bytes: Vec<u8> = (0..pages as u64 * 512)
                    .flat_map(|word| (word ^ value).to_le_bytes())
                    .collect();
                self.medium.write(offset as u64, &pages_of(&bytes)).unwrap();
                self.expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            Operation::Read { block, pages } => {
                let (offset, pages) = self.place(block, pages);
                let mut into = vec![Page([7; 512]); pages];
                self.medium.read(offset as u64, &mut into).unwrap();
                assert!(bytes_of(&into) == self.expected[offset..offset + pages * 4096]);
            }
            Operation::Gather(transfers) => self.gather(transfers),
            Operation::Flush => self.medium.flush().unwrap(),
        }
    }

    /// Runs transfers concurrently, except those that share memory or disk.
    fn gather(&mut self, transfers: Vec<(bool, usize, Vec<usize>)>) {
        let mut busy: Vec<(usize, Vec<usize>, bool)> = Vec::new();
        let mut tags = Vec::new();
        for (tag, (write, block, mut pages)) in transfers.into_iter().enumerate() {
            pages.sort_unstable();
            pages.dedup();
            pages.reverse();
            let (offset, most) = self.place(block, pages.len());
            pages.truncate(most.min(self.medium.max_pages()));
            let clashes = busy.iter().any(|(other, theirs, _)| {
                pages.iter().any(|page| theirs.contains(page))
                    || *other < offset + pages.len() * 4096 && offset < *other + theirs.len() * 4096
            });
            if clashes || tags.len() == self.medium.depth() {
                self.drain(&mut tags, &mut busy);
            }
            for &page in &pages {
                self.memory.fill(page, (tag * 1000 + page) as u64 + 1);
            }
            let places: Vec<_> = pages.iter().map(|&page| self.memory.at(page)).collect();
            let direction = if write {
                Direction::Write
            } else {
                Direction::Read
            };
            self.medium
                .start(direction, offset as u64, &places, tag as u32)
                .unwrap();
            tags.push(tag as u32);
            busy.push((offset, pages, write));
        }
        self.drain(&mut tags, &mut busy);
    }

    fn drain(&mut self, tags: &mut Vec<u32>, busy: &mut Vec<(usize, Vec<usize>, bool)>) {
        // Polling also returns the tags of started flushes.
        if self.medium.start_flush(u32::MAX).unwrap() {
            tags.push(u32::MAX);
        }
        while !tags.is_empty() {
            if let Some(tag) = self.medium.poll().unwrap() {
                let index = tags
                    .iter()
                    .position(|&other| other == tag)
                    .expect("a tag that is under way");
                tags.remove(index);
            }
        }
        for (offset, pages, write) in busy.drain(..) {
            for (index, page) in pages.into_iter().enumerate() {
                let disk = &mut self.expected[offset + index * 4096..][..4096];
                if write {
                    disk.copy_from_slice(&self.memory.bytes(page));
                } else {
                    assert!(self.memory.bytes(page) == disk);
                }
            }
        }
    }
}

/// Pages of OS memory, never freed.
pub(crate) struct Pages(OsMemory);

impl Pages {
    pub(crate) fn new(count: usize) -> Self {
        let pages = Vec::leak(vec![Page::ZERO; count]);
        let address = pages.as_mut_ptr().expose_provenance() as u64;
        let range = PhysRange::new(address, count as u64 * PAGE_BYTES);
        let map = MemoryMap::new(&[range], &[]).unwrap();
        // SAFETY: the pages were leaked for this use only.
        Pages(unsafe { OsMemory::new(map) })
    }

    pub(crate) fn at(&self, index: usize) -> OsPage {
        self.0.at(index as u64).unwrap()
    }

    pub(crate) fn fill(&self, index: usize, value: u64) {
        for word in 0..512 {
            let address = self.at(index).address() + 8 * word;
            let pointer = core::ptr::with_exposed_provenance_mut::<u64>(address as usize);
            // SAFETY: the pages were leaked for this use only.
            unsafe { pointer.write_volatile(value.wrapping_mul(word + 1)) };
        }
    }

    pub(crate) fn bytes(&self, index: usize) -> Vec<u8> {
        self.0
            .page(self.at(index))
            .0
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }
}
