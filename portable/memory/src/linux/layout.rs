use super::error::FreeListError;
use super::note::{Key, Note};
use crate::PAGE_BYTES;

/// Bytes of the two pointers of a list.
const LIST_BYTES: u64 = 16;

/// Where things are in the kernel's structures, in bytes; the numbers fit
/// together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) page: PageLayout,
    pub(super) node: NodeLayout,
    pub(super) zone: ZoneLayout,
}

/// `struct page`: one for each page of memory, in one array.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLayout {
    /// Address that the array's entry of page 0 has, or would have.
    pub(super) array: u64,
    /// Addresses that the array can be at.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: u64,
    /// The links of the list that the page is in.
    pub(super) links: u64,
    /// Where a free block is marked, by which value.
    pub(super) mark: u64,
    pub(super) free: u32,
    /// A free block's order.
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
    /// Lists of an area; its count of blocks follows them.
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
    /// Where an area's list is in it.
    pub(super) fn list(&self, number: u64) -> u64 {
        number * LIST_BYTES
    }

    /// Where an area's count of blocks is in it.
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

/// The value that marks a free block: a type, which kernels keep in the place
/// of a count of mappings. Up to 6.10 types are bits of one word that are
/// cleared, later a number in its highest byte; in both it is negative, and
/// never -1, which means no type.
fn free_mark(note: &Note) -> Result<u32, FreeListError> {
    let value = note.get(Key::FreeMark)?;
    // As kernels print it: with or without its sign.
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

/// An offset of something `length` bytes long in a structure.
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
