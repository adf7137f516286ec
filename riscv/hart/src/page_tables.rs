//! Address translation by page tables (RISC-V privileged specification, 12.3 to 12.6).

use poorwill_memory::linux::{AddressSpace, Span};
use poorwill_memory::{OsMemory, PAGE_BYTES, to_usize};

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

/// The page tables of a RISC-V kernel, as the hart that made the call uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTables {
    /// Physical address of the root table.
    pub root: u64,
    /// The mode.
    pub mode: Mode,
}

impl PageTables {
    /// Those that `satp` names (12.1.11); `None` when it names none, or is in a mode
    /// unknown here.
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

/// Where every Linux on a 64-bit RISC-V has its image: the last 2 GiB.
const IMAGE: u64 = 0xffff_ffff_8000_0000;

/// Bits of an address that one level translates.
const LEVEL_BITS: u32 = 9;
const PAGE_BITS: u32 = PAGE_BYTES.trailing_zeros();

/// Bits of a physical page number.
const NUMBER: u64 = (1 << 44) - 1;

/// Bits of an entry of a table.
mod entry {
    pub(super) const VALID: u64 = 1;
    pub(super) const READ: u64 = 1 << 1;
    pub(super) const WRITE: u64 = 1 << 2;
    pub(super) const EXECUTE: u64 = 1 << 3;
    pub(super) const USER: u64 = 1 << 4;
    pub(super) const LEAF: u64 = READ | WRITE | EXECUTE;
    /// Reserved, NAPOT and memory types: none of them maps ordinary memory.
    pub(super) const UNKNOWN: u64 = 0x3ff << 54;
}

impl AddressSpace for PageTables {
    fn span(&self, memory: &OsMemory, address: u64) -> Option<Span> {
        let levels = self.mode.levels();
        let bits = PAGE_BITS + LEVEL_BITS * levels;
        // The kernel has the upper half: all bits that are not translated are
        // ones, and so is the highest that is.
        if address >> (bits - 1) != u64::MAX >> (bits - 1) {
            return None;
        }
        let mut table = self.root;
        for level in (0..levels).rev() {
            let shift = PAGE_BITS + LEVEL_BITS * level;
            let number = to_usize(address >> shift) % (1 << LEVEL_BITS);
            let entry = memory.page(memory.page_at(table)?).0[number];
            if entry & entry::VALID == 0 || entry & entry::UNKNOWN != 0 {
                return None;
            }
            let physical = (entry >> 10 & NUMBER) << PAGE_BITS;
            if entry & entry::LEAF == 0 {
                table = physical;
                continue;
            }
            let bytes = 1 << shift;
            let readable = entry & entry::READ != 0;
            return (readable && physical.is_multiple_of(bytes)).then_some(Span {
                start: address & !(bytes - 1),
                physical,
                bytes,
                writable: entry & entry::WRITE != 0,
                user: entry & entry::USER != 0,
            });
        }
        None
    }

    fn is_image(&self, address: u64) -> bool {
        address >= IMAGE
    }
}
