//! Transfers by a device that behaves, against a plain buffer.

use proptest::prelude::*;

use super::disk::{Disk, Space};
use super::model::Model;
use super::{Pages, queue_memory, simple, start};
use crate::{Direction, Medium};
use poorwill_memory::Page;

const DISK_PAGES: usize = 160;
const MEMORY_PAGES: usize = 96;

#[derive(Clone, Debug)]
enum Operation {
    Write {
        block: usize,
        pages: usize,
        value: u64,
    },
    Read {
        block: usize,
        pages: usize,
    },
    /// Transfers under way at once: direction, first block, pages of memory.
    Gather(Vec<(bool, usize, Vec<usize>)>),
    Flush,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let block = 0..DISK_PAGES * 8;
    let gather = (
        any::<bool>(),
        block.clone(),
        prop::collection::vec(0..MEMORY_PAGES, 1..20),
    );
    let operation = prop_oneof![
        (block.clone(), 0..DISK_PAGES, any::<u64>()).prop_map(|(block, pages, value)| {
            Operation::Write {
                block,
                pages,
                value,
            }
        }),
        (block, 0..DISK_PAGES).prop_map(|(block, pages)| Operation::Read { block, pages }),
        prop::collection::vec(gather, 1..40).prop_map(Operation::Gather),
        Just(Operation::Flush),
    ];
    prop::collection::vec(operation, 1..8)
}

fn model(block_shift: u32, exponent: u8, queue: u64, stride: u64, seed: u64) -> Model {
    let mut other = Space::new(1, 9, 4);
    other.bytes.fill(0xa5);
    let mut disk = Disk::new(vec![other, Space::new(2, block_shift, DISK_PAGES)]);
    disk.exponent = exponent;
    let model = Model::new(disk);
    model.with(|state| {
        state.capabilities = state.capabilities & !0xffff | queue | stride << 32;
        state.random = seed;
    });
    model
}

fn pages_of(bytes: &[u8]) -> Vec<Page> {
    let words = |page: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(page[8 * at..8 * at + 8].try_into().unwrap());
        Page(std::array::from_fn(word))
    };
    bytes.chunks(4096).map(words).collect()
}

fn bytes_of(pages: &[Page]) -> Vec<u8> {
    pages
        .iter()
        .flat_map(|page| page.0.iter().flat_map(|word| word.to_le_bytes()))
        .collect()
}

struct Test<'a, M> {
    medium: M,
    /// What the disk should hold.
    expected: Vec<u8>,
    memory: &'a Pages,
    block_shift: u32,
}

impl<M: Medium> Test<'_, M> {
    /// Byte offset of a block, and how many of `pages` fit behind it.
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

    /// Runs transfers, many at once but for those that share memory or disk.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written is read again, by any device that keeps to the
    /// specification: any order, any sizes of blocks, queues and transfers.
    #[test]
    fn transfers_equal_a_plain_buffer(
        operations in operations(),
        block_shift in 9u32..=12,
        exponent in 0u8..9,
        queue in prop_oneof![1u64..70, Just(2047), Just(65535)],
        stride in 0u64..3,
        seed in 1u64..,
    ) {
        let model = model(block_shift, exponent, queue, stride, seed);
        let pages = Pages::new(MEMORY_PAGES);
        let mut memory = queue_memory();
        let mut controller = start(&model, &mut memory).unwrap();
        let medium = controller.medium(2).unwrap();
        let expected = vec![0; DISK_PAGES * 4096];
        let mut test = Test { medium, expected, memory: &pages, block_shift };
        for operation in operations {
            test.run(operation);
        }
        let Test { expected, .. } = test;
        model.with(|state| {
            assert!(state.disk.namespaces[1].bytes == expected);
            assert!(state.disk.namespaces[0].bytes.iter().all(|&byte| byte == 0xa5));
        });
    }
}

#[test]
fn registers_are_written_seldom() {
    let model = simple(4096);
    let pages = Pages::new(4096);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    let mut medium = controller.medium(1).unwrap();
    let all: Vec<_> = (0..4096).map(|index| pages.at(index)).collect();
    let mut commands = 0;
    for _ in 0..8 {
        for extent in all.chunks(128) {
            medium.start(Direction::Write, 0, extent, 0).unwrap();
            commands += 1;
        }
        for _ in all.chunks(128) {
            while medium.poll().unwrap().is_none() {}
        }
    }
    let [tail, head] = model.with(|state| state.doorbells);
    assert_eq!((commands, tail), (256, 256));
    assert!(head <= 8, "{head} writes of the head doorbell");
}

#[test]
fn started_and_awaited_transfers_mix() {
    let model = simple(64);
    let pages = Pages::new(4);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    let mut medium = controller.medium(1).unwrap();
    for tag in 0..4 {
        pages.fill(tag, tag as u64 + 1);
        medium
            .start(
                Direction::Write,
                tag as u64 * 4096,
                &[pages.at(tag)],
                tag as u32,
            )
            .unwrap();
    }
    let mut into = vec![Page::ZERO; 32];
    medium.read(8 * 4096, &mut into).unwrap();
    medium.flush().unwrap();
    let mut tags = Vec::new();
    while tags.len() < 4 {
        tags.extend(medium.poll().unwrap());
    }
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2, 3]);
    medium.read(0, &mut into[..4]).unwrap();
    assert!(
        bytes_of(&into[..4])
            == (0..4)
                .flat_map(|page| pages.bytes(page))
                .collect::<Vec<_>>()
    );
}
