//! First-stage translation (RISC-V privileged specification, 12.3.2), as a device sees it.

/// A cached translation of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) page: u64,
    pub(super) is_writable: bool,
}

/// Translates an address by the tables of a first-stage context; `None` for a page fault.
pub(super) fn walk(context: u64, address: u64, word: impl Fn(u64) -> u64) -> Option<Leaf> {
    let levels: u32 = if context >> 60 == 8 { 3 } else { 4 };
    let unused = 64 - (12 + 9 * levels);
    if (address << unused).cast_signed() >> unused != address.cast_signed() {
        return None;
    }
    let mut table = (context & ((1 << 44) - 1)) << 12;
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let entry = word(table + (address >> shift & 0x1ff) * 8);
        let (valid, read, write, execute) = (
            entry & 1 != 0,
            entry & 2 != 0,
            entry & 4 != 0,
            entry & 8 != 0,
        );
        if !valid || !read && write || entry >> 54 != 0 {
            return None;
        }
        let page = entry >> 10 & ((1 << 44) - 1);
        if !(read || execute) {
            // User, accessed and dirty are reserved in non-leaf entries.
            if entry & 0xd0 != 0 {
                return None;
            }
            table = page << 12;
            continue;
        }
        let (is_users, is_accessed, is_dirty) =
            (entry & 0x10 != 0, entry & 0x40 != 0, entry & 0x80 != 0);
        let low = (1 << (9 * level)) - 1;
        if !is_users || !is_accessed || !is_dirty || page & low != 0 || !read {
            return None;
        }
        return Some(Leaf {
            page: page | address >> 12 & low,
            is_writable: write,
        });
    }
    None
}
