//! Patterns in memory: written before a sleep, checked after it.
//!
//! Each page that the test kernel may use is either *filled* or *zero*. A rule decides by the
//! page's number and the sleep's number alone, so no list of pages has to survive in the memory
//! under test.

use crate::{arch, check, machine::Machine};
use arrayvec::ArrayVec;
use core::ops::Range;

/// Bytes in a page.
pub(crate) const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

/// One page beyond so many lies filled among zero pages. A prime, so that the
/// filled ones do not fall into step with anything.
const SCATTER: usize = 1009;

/// The same for [`Memory::spread`]: a third of all pages, high ones too.
const SPREAD: usize = 3;

/// The memory under test.
#[derive(Debug)]
pub(crate) struct Memory {
    usable: ArrayVec<Range<usize>, 20>,
    /// The first so many pages are all filled.
    dense_pages: usize,
    /// Beyond those, one page in so many is.
    scatter: usize,
    /// Makes one life's patterns differ from another's.
    life: u64,
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Zero,
    /// A pseudo-random double word in every place.
    Full(u64),
    /// All zeros but for the last byte.
    LastByte(u8),
    /// All zeros but for the first byte.
    FirstByte(u8),
}

impl Memory {
    /// All RAM but the firmware's and the test kernel's own, with
    /// `dense_mib` MiB of it to be filled page by page.
    ///
    /// The device tree and the initrd are part of it: the loader writes them
    /// anew at every power-on, so only a wake that zeroes leaves them zero.
    pub(crate) fn new(machine: &Machine, dense_mib: usize) -> Self {
        Self::beside(machine, &[], dense_mib)
    }

    /// The same memory without what the firmware told in the device tree, which is there
    /// after a wake then, to be written over.
    pub(crate) fn beside_told(machine: &Machine, dense_mib: usize) -> Self {
        Self::beside(machine, &machine.told, dense_mib)
    }

    fn beside(machine: &Machine, kept: &[Range<usize>], dense_mib: usize) -> Self {
        let mut taken: ArrayVec<Range<usize>, 20> =
            machine.reserved.iter().chain(kept).cloned().collect();
        taken.push(arch::image());
        taken.sort_unstable_by_key(|range| range.start);
        let mut usable = ArrayVec::new();
        let mut at = machine.ram.start;
        for range in taken {
            let end = range.start / PAGE * PAGE;
            if at < end {
                usable.push(at..end.min(machine.ram.end));
            }
            at = at.max(range.end.next_multiple_of(PAGE));
        }
        if at < machine.ram.end {
            usable.push(at..machine.ram.end);
        }
        Self {
            usable,
            dense_pages: dense_mib * (1 << 20) / PAGE,
            scatter: SCATTER,
            life: 0,
        }
    }

    /// The same memory, filled thinly from one end to the other, with patterns
    /// that no other `life` has.
    pub(crate) fn spread(machine: &Machine, life: u64) -> Self {
        Self {
            scatter: SPREAD,
            life,
            ..Self::new(machine, 0)
        }
    }

    /// The last of the pages that are all filled.
    pub(crate) fn last_dense(&self) -> usize {
        let page = self.pages().nth(self.dense_pages.saturating_sub(1));
        page.map_or(0, |(_, address)| address)
    }

    /// The memory under test.
    pub(crate) fn ranges(&self) -> &[Range<usize>] {
        &self.usable
    }

    /// Bytes that the rule fills, at the sleep number `sleep`.
    pub(crate) fn filled_bytes(&self, sleep: usize) -> usize {
        self.pages()
            .filter(|&(n, page)| self.content(n, page, sleep) != Content::Zero)
            .count()
            * PAGE
    }

    /// Writes every page as the rule has it for the sleep number `sleep`.
    pub(crate) fn fill(&self, sleep: usize) {
        for (number, page) in self.pages() {
            let content = self.content(number, page, sleep);
            let words = page_at(page);
            for (index, word) in words.iter_mut().enumerate() {
                *word = content.word(index);
            }
        }
    }

    /// Checks every page against the rule; says how many were wrong.
    pub(crate) fn verify(&self, sleep: usize) -> usize {
        let mut wrong = 0;
        for (number, page) in self.pages() {
            let content = self.content(number, page, sleep);
            let words: &[u64; WORDS] = page_at(page);
            let bad = words
                .iter()
                .enumerate()
                .position(|(index, word)| *word != content.word(index));
            let Some(index) = bad else { continue };
            wrong += 1;
            // A few say what is wrong; the count says how much.
            check!(
                wrong > 5,
                "page {page:#x} should be {content:x?}: double word {index} is {:#x}",
                words[index]
            );
        }
        wrong
    }

    /// How many pages still hold what the rule fills them with for that sleep.
    pub(crate) fn remains(&self, sleep: usize) -> usize {
        let is_there = |&(number, page): &(usize, usize)| {
            let content = self.content(number, page, sleep);
            let words: &[u64; WORDS] = page_at(page);
            let mut words = words.iter().enumerate();
            content != Content::Zero && words.all(|(index, word)| *word == content.word(index))
        };
        self.pages().filter(is_there).count()
    }

    /// Every usable page, with its number.
    fn pages(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.usable
            .iter()
            .cloned()
            .flat_map(|range| range.step_by(PAGE))
            .enumerate()
    }

    fn content(&self, number: usize, page: usize, sleep: usize) -> Content {
        let seed = mix(self.life ^ page as u64 ^ (sleep as u64) << 48);
        if number < self.dense_pages {
            return Content::Full(seed);
        }
        if !(number + sleep * 7).is_multiple_of(self.scatter) {
            return Content::Zero;
        }
        match number / self.scatter % 3 {
            0 => Content::Full(seed),
            1 => Content::LastByte(seed.to_le_bytes()[0] | 1),
            _ => Content::FirstByte(seed.to_le_bytes()[0] | 1),
        }
    }
}

impl Content {
    fn word(self, index: usize) -> u64 {
        match self {
            // Odd, so that no double word of it is zero.
            Content::Full(seed) => (seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1,
            Content::LastByte(byte) if index == WORDS - 1 => u64::from(byte) << 56,
            Content::FirstByte(byte) if index == 0 => u64::from(byte),
            _ => 0,
        }
    }
}

/// Spreads a number over all 64 bits.
pub(crate) fn mix(number: u64) -> u64 {
    let spread = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let spread = (spread ^ spread >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    spread ^ spread >> 31
}

fn page_at(address: usize) -> &'static mut [u64; WORDS] {
    // SAFETY: called for usable pages only, one at a time: RAM that holds no
    // Rust object, since the image with its stacks is not among them.
    unsafe { &mut *core::ptr::without_provenance_mut(address) }
}
