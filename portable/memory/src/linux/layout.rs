use super::error::FreeListError;
use super::note::{Key, Note};
use crate::PAGE_BYTES;

/// The length of a list's two pointers in bytes.
const LIST_BYTES: u64 = 16;

/// The layout of the kernel's structures in bytes. Its numbers are consistent with each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) page: PageLayout,
    pub(super) node: NodeLayout,
    pub(super) zone: ZoneLayout,
}

/// `struct page`: the array has one for each page of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLayout {
    /// The address of the array's entry for page 0, which may not exist.
    pub(super) array: u64,
    /// The range of addresses for the array.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: u64,
    pub(super) links: u64,
    /// The offset of a free block's mark, and the mark's value.
    pub(super) mark: u64,
    pub(super) free: u32,
    pub(super) order: u64,
}

/// `struct pglist_data`: a node of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLayout {
    pub(super) zones: u64,
    pub(super) most_zones: u64,
    pub(super) zone_count: u64,
    pub(super) start: u64,
    pub(super) spanned: u64,
    pub(super) number: u64,
}

/// `struct zone` and, for each order, its `struct free_area`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneLayout {
    pub(super) bytes: u64,
    pub(super) spanned: u64,
    pub(super) free_pages: u64,
    pub(super) areas: u64,
    pub(super) area_bytes: u64,
    pub(super) orders: u64,
    /// The number of an area's lists; its count of blocks follows them.
    pub(super) lists: u64,
}

impl Layout {
    pub(super) fn of(note: &Note) -> Result<Self, FreeListError> {
        only(note, Key::PageSize, PAGE_BYTES)?;
        only(note, Key::ListBytes, LIST_BYTES)?;
        only(note, Key::ListNext, 0)?;
        only(note, Key::ListPrevious, 8)?;
        let zone = zone(note)?;
        Ok(Layout {
            page: page(note)?,
            node: node(note, zone.bytes)?,
            zone,
        })
    }
}

impl ZoneLayout {
    /// The offset of a list in an area.
    pub(super) fn list(&self, number: u64) -> u64 {
        number * LIST_BYTES
    }

    /// The offset of the count of blocks in an area.
    pub(super) fn count(&self) -> u64 {
        self.list(self.lists)
    }
}

fn page(note: &Note) -> Result<PageLayout, FreeListError> {
    let bytes = within(note, Key::PageBytes, 40, 256)?;
    let links = field(note, Key::PageLru, LIST_BYTES, bytes)?;
    let mark = field(note, Key::PageMapcount, 4, bytes)?;
    let order = field(note, Key::PagePrivate, 8, bytes)?;
    let apart = |one: u64, length: u64, other: u64, others: u64| {
        one + length <= other || other + others <= one
    };
    if !apart(links, LIST_BYTES, mark, 4) || !apart(links, LIST_BYTES, order, 8) {
        return unknown(note, Key::PageLru);
    }
    if !apart(mark, 4, order, 8) {
        return unknown(note, Key::PageMapcount);
    }
    let start = note.get(Key::PageArrayStart)?;
    let end = note.get(Key::PageArrayEnd)?;
    if start >= end || end > note.get(Key::LinearMap)? {
        return unknown(note, Key::PageArrayEnd);
    }
    Ok(PageLayout {
        array: note.get(Key::PageArray)?,
        start,
        end,
        bytes,
        links,
        mark,
        free: free_mark(note)?,
        order,
    })
}

/// The value that marks a free block: a page type, which shares its field with a count of
/// mappings. Up to 6.10 a type is a cleared bit; later it is a number in the highest
/// byte. In both cases the value is negative, but not -1, which means no type.
fn free_mark(note: &Note) -> Result<u32, FreeListError> {
    let value = note.get(Key::FreeMark)?;
    // Kernels print it with or without its sign.
    let signed = i32::try_from(value.cast_signed()).ok();
    let mark = signed.map(i32::cast_unsigned).or(u32::try_from(value).ok());
    match mark {
        Some(mark) if mark >> 31 == 1 && mark != u32::MAX => Ok(mark),
        _ => unknown(note, Key::FreeMark),
    }
}

fn zone(note: &Note) -> Result<ZoneLayout, FreeListError> {
    only(note, Key::AreaLists, 0)?;
    let bytes = within(note, Key::ZoneBytes, 1, 1 << 16)?;
    let lists = within(note, Key::Lists, 1, 16)?;
    let orders = within(note, Key::Orders, 1, 32)?;
    let area_bytes = lists * LIST_BYTES + 8;
    only(note, Key::AreaBytes, area_bytes)?;
    let stat = within(note, Key::FreePagesStat, 0, 256)?;
    let stats = field(note, Key::ZoneStats, 8 * (stat + 1), bytes)?;
    Ok(ZoneLayout {
        bytes,
        spanned: field(note, Key::ZoneSpanned, 8, bytes)?,
        free_pages: stats + 8 * stat,
        areas: field(note, Key::ZoneAreas, orders * area_bytes, bytes)?,
        area_bytes,
        orders,
        lists,
    })
}

fn node(note: &Note, zone_bytes: u64) -> Result<NodeLayout, FreeListError> {
    let bytes = within(note, Key::NodeBytes, 1, 1 << 24)?;
    let zones = field(note, Key::NodeZones, zone_bytes, bytes)?;
    Ok(NodeLayout {
        zones,
        most_zones: (bytes - zones) / zone_bytes,
        zone_count: field(note, Key::NodeZoneCount, 4, bytes)?,
        start: field(note, Key::NodeStart, 8, bytes)?,
        spanned: field(note, Key::NodeSpanned, 8, bytes)?,
        number: field(note, Key::NodeNumber, 4, bytes)?,
    })
}

/// The offset of a field of `length` bytes in a structure.
fn field(note: &Note, key: Key, length: u64, structure: u64) -> Result<u64, FreeListError> {
    let offset = note.get(key)?;
    match offset.checked_add(length) {
        Some(end) if end <= structure && offset.is_multiple_of(4) => Ok(offset),
        _ => unknown(note, key),
    }
}

fn within(note: &Note, key: Key, least: u64, most: u64) -> Result<u64, FreeListError> {
    let value = note.get(key)?;
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        unknown(note, key)
    }
}

fn only(note: &Note, key: Key, value: u64) -> Result<(), FreeListError> {
    within(note, key, value, value).map(|_| ())
}

fn unknown<T>(note: &Note, key: Key) -> Result<T, FreeListError> {
    Err(FreeListError::Unknown {
        key: key.name(),
        value: note.get(key)?,
    })
}
