//! Address translation by page tables (RISC-V privileged specification, 12.3 to 12.6).

use core::ops::Range;

use poorwill_memory::linux::{AddressSpace, Span};
use poorwill_memory::{OsMemory, PAGE_BYTES, PhysRange, to_usize};

use crate::page_entry as entry;

/// A translation mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Three levels.
    Sv39,
    /// Four levels.
    Sv48,
    /// Five levels.
    Sv57,
}

impl Mode {
    fn levels(self) -> u32 {
        match self {
            Mode::Sv39 => 3,
            Mode::Sv48 => 4,
            Mode::Sv57 => 5,
        }
    }
}

/// Page tables of a RISC-V kernel, as the calling hart uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTables {
    /// Physical address of the root table.
    pub root: u64,
    /// The mode.
    pub mode: Mode,
}

impl PageTables {
    /// The tables in `satp` (12.1.11); `None` if translation is off or its mode is unknown.
    #[must_use]
    pub fn of_satp(satp: u64) -> Option<Self> {
        let mode = match satp >> 60 {
            8 => Mode::Sv39,
            9 => Mode::Sv48,
            10 => Mode::Sv57,
            _ => return None,
        };
        let root = (satp & NUMBER) * PAGE_BYTES;
        Some(PageTables { root, mode })
    }
}

/// The mapping of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The leaf's entry.
    pub entry: u64,
    /// Physical address of the entry.
    pub at: u64,
    /// First physical address of the mapping.
    pub start: u64,
    /// Bytes of the mapping, a power of two.
    pub bytes: u64,
}

/// Bits of an address that one level translates.
const LEVEL_BITS: u32 = 9;
const PAGE_BITS: u32 = PAGE_BYTES.trailing_zeros();
/// Number of a table's last entry.
const LAST_ENTRY: u64 = (1 << LEVEL_BITS) - 1;

/// Additional bits that the root table of a second stage translates (H extension, 18.5.1).
const WIDENED_BITS: u32 = 2;

const NUMBER: u64 = (1 << 44) - 1;

/// Pages that entries with NAPOT map (Svnapot: 64 KiB), and the encoding of their
/// number.
const NAPOT_PAGES: u64 = 16;
const NAPOT_CODE: u64 = NAPOT_PAGES / 2;

impl PageTables {
    /// Finds the mapping of an address. Its untranslated bits must equal its highest translated
    /// bit. `word` reads the tables by physical address. `None` where a hart would find no valid
    /// leaf, or `word` reads nothing.
    pub fn mapping(&self, address: u64, word: impl Fn(u64) -> Option<u64>) -> Option<Mapping> {
        let bits = PAGE_BITS + LEVEL_BITS * self.mode.levels();
        let signed = address.cast_signed() >> (bits - 1);
        if signed != 0 && signed != -1 {
            return None;
        }
        self.walk(self.root, address & ((1 << bits) - 1), word)
    }

    /// As [`mapping`](Self::mapping), for a guest's physical address and the tables of a second stage.
    pub(crate) fn find_of_guest(
        &self,
        address: u64,
        word: impl Fn(u64) -> Option<u64>,
    ) -> Option<Mapping> {
        let bits = PAGE_BITS + LEVEL_BITS * self.mode.levels() + WIDENED_BITS;
        if address >> bits != 0 {
            return None;
        }
        let root = self.root & !((PAGE_BYTES << WIDENED_BITS) - 1);
        self.walk(root, address, word)
    }

    /// `address` has only translated bits.
    fn walk(&self, root: u64, address: u64, word: impl Fn(u64) -> Option<u64>) -> Option<Mapping> {
        let mut shift = PAGE_BITS + LEVEL_BITS * self.mode.levels();
        let mut table = root;
        // The root's index needs no mask, since the address has only translated bits.
        let mut mask = u64::MAX;
        while shift > PAGE_BITS {
            shift -= LEVEL_BITS;
            let number = address >> shift & mask;
            mask = (1 << LEVEL_BITS) - 1;
            let at = table + number * size_of::<u64>() as u64;
            let entry = word(at)?;
            if entry & entry::VALID == 0 || entry & entry::UNKNOWN != 0 {
                return None;
            }
            let start = (entry >> 10 & NUMBER) << PAGE_BITS;
            if entry & entry::LEAF != 0 {
                return leaf(entry, at, start, 1 << shift);
            }
            if entry & entry::LEAF_ONLY != 0 {
                return None;
            }
            table = start;
        }
        None
    }
}

impl PageTables {
    /// Returns whether each address of a range is without a mapping, or is mapped at one distance
    /// (`physical - address`, wrapping) by a leaf that `is_good` takes. The range consists of pages.
    /// False if `word` cannot read a table, and for addresses that are not translated. `run` returns
    /// how many words from an address on, of at most this number, are `first`, `first + step` and so
    /// on; fewer cost time alone.
    pub fn has_distance(
        &self,
        addresses: Range<u64>,
        distance: u64,
        word: impl Fn(u64) -> Option<u64>,
        run: impl Fn(u64, u64, Progression) -> u64,
        is_good: impl Fn(u64) -> bool,
    ) -> bool {
        let bits = PAGE_BITS + LEVEL_BITS * self.mode.levels();
        let last = addresses.end.wrapping_sub(1);
        let signed = [addresses.start, last].map(|at| at.cast_signed() >> (bits - 1));
        if addresses.is_empty() || signed[0] != signed[1] || ![0, -1].contains(&signed[0]) {
            return false;
        }
        let translated = (1 << bits) - 1;
        let distances = Distances {
            word: &word,
            run: &run,
            is_good: &is_good,
            first: addresses.start & translated,
            last: last & translated,
            // The physical address of the first one.
            physical: addresses.start.wrapping_add(distance),
        };
        distances.hold(self.root, 0, bits - LEVEL_BITS)
    }
}

/// Words `first`, `first + step` and so on.
#[derive(Clone, Copy, Debug)]
pub struct Progression {
    /// The first word.
    pub first: u64,
    /// What is added to each, wrapping.
    pub step: u64,
}

/// A look at the mappings of a range.
struct Distances<'a> {
    word: &'a dyn Fn(u64) -> Option<u64>,
    run: &'a dyn Fn(u64, u64, Progression) -> u64,
    is_good: &'a dyn Fn(u64) -> bool,
    /// Addresses without untranslated bits.
    first: u64,
    last: u64,
    physical: u64,
}

impl Distances<'_> {
    /// Looks at `table`, whose entries stand for `1 << shift` addresses each, from `start` on.
    fn hold(&self, table: u64, start: u64, shift: u32) -> bool {
        let number = |address: u64| (address.saturating_sub(start) >> shift).min(LAST_ENTRY);
        let (mut next, last) = (number(self.first), number(self.last));
        while next <= last {
            let at = table + next * WORD;
            let Some(entry) = (self.word)(at) else {
                return false;
            };
            let address = start + (next << shift);
            let Some(step) = self.step(entry, at, address, shift) else {
                return false;
            };
            next += 1;
            if next <= last
                && let Step::Same(step) = step
            {
                let first = entry.wrapping_add(step);
                next += (self.run)(at + WORD, last + 1 - next, Progression { first, step });
            }
        }
        true
    }

    /// Looks at an entry. `None`: it maps addresses otherwise.
    fn step(&self, entry: u64, at: u64, address: u64, shift: u32) -> Option<Step> {
        if entry & entry::VALID == 0 || entry & entry::UNKNOWN != 0 {
            return Some(Step::Same(0));
        }
        let mapped = (entry >> 10 & NUMBER) << PAGE_BITS;
        if entry & entry::LEAF == 0 {
            let is_table = entry & entry::LEAF_ONLY == 0 && shift > PAGE_BITS;
            let holds = !is_table || self.hold(mapped, address, shift - LEVEL_BITS);
            return holds.then_some(Step::Own);
        }
        let Some(leaf) = leaf(entry, at, mapped, 1 << shift) else {
            return Some(Step::Own);
        };
        let start = leaf.start + (address & (leaf.bytes - 1));
        let expected = self.physical.wrapping_add(address.wrapping_sub(self.first));
        let holds = start == expected && (self.is_good)(entry);
        let of_pages = match leaf.bytes == 1 << shift {
            true => Step::Same(1 << (shift - PAGE_BITS + NUMBER_BIT)),
            false => Step::Own,
        };
        holds.then_some(of_pages)
    }
}

/// What an entry tells about the next one.
enum Step {
    /// If it is greater by this, it is as good.
    Same(u64),
    /// Nothing.
    Own,
}

const WORD: u64 = size_of::<u64>() as u64;
/// The lowest bit of an entry's page number.
const NUMBER_BIT: u32 = 10;

/// A search through all mappings from an address on.
struct Survey<'a> {
    word: &'a dyn Fn(u64) -> Option<u64>,
    /// Range of addresses, without untranslated bits.
    addresses: Range<u64>,
    /// Number of mappings and tables that may still be visited.
    left: u64,
    is_found: &'a dyn Fn(&PhysRange) -> bool,
}

impl Survey<'_> {
    /// Searches `table`, whose entries stand for `1 << shift` addresses each, from `start` on.
    fn find(&mut self, table: u64, start: u64, shift: u32) -> Option<PhysRange> {
        let page = PhysRange::new(table, PAGE_BYTES);
        if (self.is_found)(&page) {
            return Some(page);
        }
        for number in 0..1 << LEVEL_BITS {
            let address = start + (number << shift);
            let ends = address + (1 << shift) <= self.addresses.start;
            if ends || address >= self.addresses.end {
                continue;
            }
            let at = table + number * size_of::<u64>() as u64;
            let entry = (self.word)(at)?;
            if entry & entry::VALID == 0 {
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            let mapped = (entry >> 10 & NUMBER) << PAGE_BITS;
            let found = if entry & entry::LEAF != 0 {
                leaf(entry, at, mapped, 1 << shift)
                    .map(|found| PhysRange::new(found.start, found.bytes))
                    .filter(self.is_found)
            } else if shift == PAGE_BITS {
                None
            } else {
                self.find(mapped, address, shift - LEVEL_BITS)
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// The mapping of a leaf; `None` if a hart would refuse the leaf.
fn leaf(entry: u64, at: u64, start: u64, bytes: u64) -> Option<Mapping> {
    // Memory type 3 is reserved (Svpbmt).
    let is_valid =
        entry & (entry::READ | entry::WRITE) != entry::WRITE && entry & entry::TYPE != entry::TYPE;
    let (start, bytes) = if entry & entry::NAPOT == 0 {
        (start, bytes)
    } else {
        let coded = start / PAGE_BYTES % NAPOT_PAGES == NAPOT_CODE && bytes == PAGE_BYTES;
        let start = coded.then(|| start - NAPOT_CODE * PAGE_BYTES)?;
        (start, NAPOT_PAGES * PAGE_BYTES)
    };
    (is_valid && start.is_multiple_of(bytes)).then_some(Mapping {
        entry,
        at,
        start,
        bytes,
    })
}

/// The word of OS memory at a physical address, a multiple of 8.
fn word_of(memory: &OsMemory, at: u64) -> Option<u64> {
    let page = memory.page_at(at)?;
    Some(memory.page(page).0[to_usize(at % PAGE_BYTES / 8)])
}

/// Start of the last 2 GiB, where every Linux on RV64 has its image.
const IMAGE: u64 = 0xffff_ffff_8000_0000;

impl AddressSpace for PageTables {
    fn span(&self, memory: &OsMemory, address: u64) -> Option<Span> {
        let word = |at| word_of(memory, at);
        // The kernel uses the upper half.
        let is_kernel = address.cast_signed() < 0;
        let Mapping {
            entry,
            start,
            bytes,
            ..
        } = is_kernel.then(|| self.mapping(address, word)).flatten()?;
        // Ordinary memory is mapped without NAPOT and memory types.
        let is_ordinary = entry & (entry::NAPOT | entry::TYPE) == 0;
        let readable = entry & entry::READ != 0;
        (is_ordinary && readable).then_some(Span {
            start: address & !(bytes - 1),
            physical: start,
            bytes,
            writable: entry & entry::WRITE != 0,
            user: entry & entry::USER != 0,
        })
    }

    fn find(
        &self,
        memory: &OsMemory,
        first: u64,
        most: u64,
        is_found: &dyn Fn(&PhysRange) -> bool,
    ) -> Option<PhysRange> {
        let shift = PAGE_BITS + LEVEL_BITS * (self.mode.levels() - 1);
        let translated = (1 << (shift + LEVEL_BITS)) - 1;
        let mut survey = Survey {
            word: &|at| word_of(memory, at),
            addresses: first & translated..IMAGE & translated,
            left: most,
            is_found,
        };
        survey.find(self.root, 0, shift)
    }

    fn is_image(&self, address: u64) -> bool {
        address >= IMAGE
    }
}
