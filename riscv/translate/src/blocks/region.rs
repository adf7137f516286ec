//! Memory of translated code: a region that the weak core's lower mode reads and executes, and a
//! page that it reads and writes.

use poorwill_memory::PAGE_BYTES;

use super::sites::Notes;
#[cfg(feature = "check")]
use super::trace::Trace;

/// Bytes of the region, a power of two.
pub const REGION_BYTES: u64 = 4 << 20;

/// Entries of a table of translations, a power of two.
pub(super) const SLOTS: usize = 512;
/// Sets of the table of jumps, a power of two.
pub(super) const JUMP_SETS: usize = 8 << 10;
/// Heads of lists of blocks, and counters of executions; a power of two.
pub(super) const HEADS: usize = 8192;
// Most blocks are short: they have about 20 words and 8 places. Two harts with NVMe, AHCI and e1000e need
// 23,000 blocks for both halves.
const BLOCKS: usize = 60 << 9;
const PLACES: usize = 280 << 10;
const LINES: usize = 22 << 10;
/// Places of the list of lines by hash, a power of two.
pub(super) const LINE_HASH: usize = 32 << 10;
/// Double words of a line.
pub(super) const LINE_WORDS: usize = 4;
const PAGES: usize = 1024;
/// Places of the list of pages by hash.
pub(super) const PAGE_HASH: usize = 2 * PAGES;
/// Recent pages that are noted.
pub(super) const RECENT_PAGES: usize = 64;
const WORDS: usize = 676 << 10;
/// Words of a chunk, whose first word's block is noted.
pub(super) const CHUNK: usize = 64;

/// An entry of a table that translated code reads.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Slot {
    /// The number of a virtual page, or an address.
    pub(super) tag: u64,
    /// What is added to a virtual address, or the address of translated code.
    pub(super) value: u64,
}

impl Slot {
    /// No page has this number, and no instruction this address.
    pub(super) const EMPTY: Slot = Slot {
        tag: u64::MAX,
        value: 0,
    };
}

/// The instructions of the OS from one address on, translated. They begin in one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// Address of the first instruction.
    pub(super) pc: u64,
    /// Index of the first word of the translation.
    pub(super) word: u32,
    pub(super) words: u16,
    /// Half-words of the OS's instructions.
    pub(super) halves: u16,
    /// Index of the first place; the first `inline` places have ascending addresses of the OS.
    pub(super) place: u32,
    pub(super) inline: u16,
    pub(super) places: u16,
    /// Number of the next block with the same hash, plus one.
    pub(super) next: u16,
    /// Number of its page, and of the next block of the page, plus one.
    pub(super) page: u16,
    pub(super) next_of_page: u16,
    /// Zero: its source has changed, and it must not run.
    pub(super) live: u8,
    /// Not zero: it is long, or is to be made so.
    pub(super) is_long: u8,
}

impl Block {
    /// Number of the double words with its instructions.
    pub(super) fn source_words(&self) -> usize {
        (self.skipped() + usize::from(self.halves)).div_ceil(4)
    }

    /// Half-words of the first of these before its first instruction.
    pub(super) fn skipped(&self) -> usize {
        self.pc as usize % 8 / 2
    }
}

#[cfg(feature = "fake")]
impl Block {
    const EMPTY: Block = Block {
        pc: 0,
        word: 0,
        words: 0,
        halves: 0,
        place: 0,
        inline: 0,
        places: 0,
        next: 0,
        page: 0,
        next_of_page: 0,
        live: 0,
        is_long: 0,
    };
}

/// What the words from one of a block on belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Number of the word in its block.
    pub(super) word: u16,
    /// [`Place::LEAVES`], [`Place::JUMPS`], or the number of the OS's half-word in the block.
    pub(super) at: u8,
    /// Instructions from here up to the next branch or the end of the block, which are counted where
    /// that count begins; and [`Place::COUNTS`]. Zero at exits.
    pub(super) rest: u8,
}

impl Place {
    /// The block is left for an address that follows.
    pub(super) const LEAVES: u8 = u8::MAX;
    /// The words begin with those that count.
    pub(super) const COUNTS: u8 = 1 << 7;
    /// The next address is in a register.
    pub(super) const JUMPS: u8 = u8::MAX - 1;
    #[cfg(feature = "fake")]
    const EMPTY: Place = Place {
        word: 0,
        at: 0,
        rest: 0,
    };
}

/// A line of the OS's memory with instructions of blocks, as they were translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) physical: u64,
    pub(super) words: [u64; LINE_WORDS],
}

/// A page with code that is translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodePage {
    pub(super) page: u64,
    pub(super) physical: u64,
    /// Number of its first block, plus one.
    pub(super) first: u16,
    /// log2 of the bytes of its leaf.
    pub(super) shift: u8,
    /// Not zero: translated code may store to it by a window.
    pub(super) unwatched: u8,
    /// Not zero: it [goes on](super::leaf::CodeAt::goes_on).
    pub(super) goes_on: u8,
    /// Not zero: a block of it ends in the next page.
    pub(super) crossed: u8,
    /// Not zero: a block of the page before ends here.
    pub(super) entered: u8,
}

/// What translated code reads and executes. It is plain data: any bits are valid, and
/// [`Blocks::new`](super::Blocks::new) empties it. Places have the rest of its memory, and are machine mode's
/// alone.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Region {
    /// Two entries for addresses with the same hash, the later one first.
    pub(super) jumps: [[Slot; 2]; JUMP_SETS],
    pub(super) loads: [Slot; SLOTS],
    pub(super) stores: [Slot; SLOTS],
    pub(super) words: [u32; WORDS],
    pub(super) places: [Place; PLACES],
}

const _: () = assert!(size_of::<Region>() as u64 <= REGION_BYTES);
const _: () = assert!(size_of::<Block>() == 32);

/// What machine mode knows about the words of the [`Region`]. Plain data, like that.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Index {
    pub(super) blocks: [Block; BLOCKS],
    pub(super) lines: [Line; LINES],
    pub(super) pages: [CodePage; PAGES],
    pub(super) notes: Notes,
    pub(super) heads: [u16; HEADS],
    /// Numbers of pages, plus one, by the hash of their physical addresses.
    pub(super) page_hash: [u16; PAGE_HASH],
    /// Numbers of lines, plus one, by the hash of their physical addresses.
    pub(super) line_hash: [u16; LINE_HASH],
    /// Number of the block that has the first word of a chunk.
    pub(super) chunks: [u16; WORDS / CHUNK],
    pub(super) executions: [u8; HEADS],
    /// For loads and stores: log2 of the bytes of a page's leaf.
    pub(super) shifts: [[u8; SLOTS]; 2],
    #[cfg(feature = "check")]
    pub(super) trace: Trace,
}

#[cfg(feature = "fake")]
impl Region {
    /// An empty region, for tests. It takes much stack.
    #[must_use]
    pub const fn empty() -> Self {
        Region {
            jumps: [[Slot::EMPTY; 2]; JUMP_SETS],
            loads: [Slot::EMPTY; SLOTS],
            stores: [Slot::EMPTY; SLOTS],
            words: [0; WORDS],
            places: [Place::EMPTY; PLACES],
        }
    }
}

#[cfg(feature = "fake")]
impl Index {
    /// An empty index, for tests. It takes much stack.
    #[must_use]
    pub const fn empty() -> Self {
        Index {
            blocks: [Block::EMPTY; BLOCKS],
            lines: [Line {
                physical: 0,
                words: [0; LINE_WORDS],
            }; LINES],
            pages: [CodePage {
                page: 0,
                physical: 0,
                first: 0,
                shift: 0,
                unwatched: 0,
                goes_on: 0,
                crossed: 0,
                entered: 0,
            }; PAGES],
            notes: Notes::EMPTY,
            heads: [0; HEADS],
            page_hash: [0; PAGE_HASH],
            line_hash: [0; LINE_HASH],
            chunks: [0; WORDS / CHUNK],
            executions: [0; HEADS],
            shifts: [[0; SLOTS]; 2],
            #[cfg(feature = "check")]
            trace: Trace::EMPTY,
        }
    }
}

/// The page that translated code writes. The caller of translated code takes nothing in it as true but
/// the OS's own state.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Environment {
    /// Room, so that the fields are near the region.
    unused: [u64; UNUSED],
    /// Registers of the OS that have no register of the core.
    pub(super) x: [u64; 32],
    /// Floating-point registers of the OS, while they are on.
    pub(super) f: [u64; 32],
    /// `sstatus`, as S-mode reads it.
    pub(super) sstatus: u64,
    /// Not zero: an interrupt waits until S-mode lets it in.
    pub(super) attention: u64,
    /// Physical address of the reservation; its lowest bit tells of 8 bytes. Zero: none.
    pub(super) reserved: u64,
    /// The reserved value.
    pub(super) reserved_value: u64,
    /// Address of MTIME.
    pub(super) mtime: u64,
    /// Distance of the second window.
    pub(super) distance: u64,
    /// The distance of an address of one of two windows, by the bit of
    /// [`Select`](super::windows::Select).
    pub(super) selected: [u64; 2],
    /// The stack that is in use: its first address, its bytes, and its physical address.
    pub(super) stack_start: u64,
    pub(super) stack_bytes: u64,
    pub(super) stack_physical: u64,
}

const UNUSED: usize = 199;

const _: () = assert!(size_of::<Environment>() as u64 == PAGE_BYTES);

impl Environment {
    /// An empty page. `mtime`: the address of MTIME, which translated code may read.
    #[must_use]
    pub const fn new(mtime: u64) -> Self {
        Environment {
            unused: [0; UNUSED],
            x: [0; 32],
            f: [0; 32],
            sstatus: 0,
            attention: 0,
            reserved: 0,
            reserved_value: 0,
            mtime,
            distance: 0,
            selected: [0; 2],
            stack_start: 0,
            stack_bytes: 0,
            stack_physical: 0,
        }
    }

    /// The field at an offset, for tests.
    #[cfg(feature = "fake")]
    pub(super) fn field(&mut self, offset: u64) -> &mut u64 {
        let Environment {
            unused,
            x,
            f,
            sstatus,
            attention,
            reserved,
            reserved_value,
            mtime,
            distance,
            selected: [clear, set],
            stack_start,
            stack_bytes,
            stack_physical,
        } = self;
        let others = [
            sstatus,
            attention,
            reserved,
            reserved_value,
            mtime,
            distance,
            clear,
            set,
            stack_start,
            stack_bytes,
            stack_physical,
        ];
        assert!(offset.is_multiple_of(8) && offset >= 8 * unused.len() as u64);
        let mut all = x.iter_mut().chain(f).chain(others);
        let number = offset / 8 - unused.len() as u64;
        all.nth(number as usize).expect("a field")
    }
}
