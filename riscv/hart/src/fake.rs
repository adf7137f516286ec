//! Page tables for a modelled kernel.

use poorwill_memory::PAGE_BYTES;
use poorwill_memory::fake::{Rights, SmallLinux};

use crate::{Mode, PageTables};

/// Flags of an entry (12.4.1): valid; also readable, accessed and dirty; writable; the user's.
const VALID: u64 = 1;
const LEAF: u64 = VALID | 1 << 1 | 1 << 6 | 1 << 7;
const WRITE: u64 = 1 << 2;
const USER: u64 = 1 << 4;

/// Maps the kernel's mappings page by page. The tables lie in pages of the kernel's memory, so its
/// free pages must be set up again.
#[must_use]
pub fn page_tables(linux: &mut SmallLinux, mode: Mode) -> PageTables {
    let root = linux.take(1);
    let tables = PageTables { root, mode };
    for (address, physical, rights) in linux.mapped() {
        map(linux, tables, address, physical, rights);
    }
    tables
}

/// Maps a page.
pub fn map(
    linux: &mut SmallLinux,
    tables: PageTables,
    address: u64,
    physical: u64,
    rights: Rights,
) {
    let levels = match tables.mode {
        Mode::Sv39 => 3,
        Mode::Sv48 => 4,
        Mode::Sv57 => 5,
    };
    let mut table = tables.root;
    for level in (1..levels).rev() {
        let at = table + entry_of(address, level);
        let entry = linux.word(at);
        table = if entry == 0 {
            let table = linux.take(1);
            linux.set_word(at, number(table) | VALID);
            table
        } else {
            entry >> 10 << 12
        };
    }
    let flags = match rights {
        Rights::Read => LEAF,
        Rights::Write => LEAF | WRITE,
        Rights::UserRead => LEAF | USER,
    };
    linux.set_word(table + entry_of(address, 0), number(physical) | flags);
}

/// Offset in bytes of an address's entry in its table.
fn entry_of(address: u64, level: u32) -> u64 {
    (address >> (12 + 9 * level)) % 512 * 8
}

/// A page's number at its position in an entry.
fn number(physical: u64) -> u64 {
    (physical / PAGE_BYTES) << 10
}
