//! The lists of free blocks. A block has 2^order pages and is aligned to its length. The
//! `struct page` of its first page is marked as free, has the order, and is linked into
//! one of its zone's lists for that order.

use super::address_space::AddressSpace;
use super::error::FreeListError;
use super::kernel::Kernel;
use super::layout::Layout;
use super::note::Key;
use super::search::Known;
use super::symbols::Symbol;
use crate::{FreeContents, PAGE_BYTES, PageMap};

/// The greatest error of a zone's count of free pages. The last hart's per-CPU difference, which
/// fits in a byte, is not yet added to it. The other harts added theirs when they went offline.
const SLACK: u64 = 128;

/// Maximum bytes of a set of nodes: 1024 nodes.
const MOST_NODE_BYTES: u64 = 128;

/// The contents that the kernel expects in its free pages.
pub(super) fn contents<A: AddressSpace>(
    kernel: &mut Kernel<'_, A>,
    known: &Known,
) -> Result<FreeContents, FreeListError> {
    match known.symbols.optional(Symbol::InitOnFree)? {
        Some(address) if kernel.half(address)? == 0 => Ok(FreeContents::Anything),
        _ => Ok(FreeContents::Zeros),
    }
}

/// Adds all free blocks to `free`. Returns the number of their pages.
pub(super) fn mark<A: AddressSpace>(
    kernel: &mut Kernel<'_, A>,
    known: &Known,
    free: &mut PageMap<'_>,
) -> Result<u64, FreeListError> {
    refuse_guarded(kernel, known)?;
    let layout = Layout::of(&known.note)?;
    let mut walk = Walk {
        kernel,
        layout,
        free,
    };
    if let Ok(node) = known.note.get(Key::OnlyNode) {
        return walk.node(0, node);
    }
    let online = known.note.get(Key::NodeOnlineMap)?;
    let bytes = known.note.get(Key::NodeMaskBytes)?;
    if bytes > MOST_NODE_BYTES {
        return Err(FreeListError::Unknown {
            key: Key::NodeMaskBytes.name(),
            value: bytes,
        });
    }
    let nodes = known.symbols.address(Symbol::Nodes)?;
    let mut pages = 0;
    for number in 0..bytes * 8 {
        let word = walk.kernel.word(online.wrapping_add(number / 64 * 8))?;
        if word >> (number % 64) & 1 == 1 {
            let node = walk.kernel.word(nodes.wrapping_add(number * 8))?;
            pages += walk.node(number, node)?;
        }
    }
    Ok(pages)
}

/// Fails if the kernel checks the contents of free pages.
fn refuse_guarded<A: AddressSpace>(
    kernel: &mut Kernel<'_, A>,
    known: &Known,
) -> Result<(), FreeListError> {
    for switch in [Symbol::PagePoisoning, Symbol::DebugPagealloc] {
        if let Some(address) = known.symbols.optional(switch)?
            && kernel.half(address)? != 0
        {
            return Err(FreeListError::Guarded);
        }
    }
    // These kernels are older than 5.11. They have further conditions, which are not checked here.
    match known.symbols.optional(Symbol::OldPagePoisoning)? {
        Some(_) => Err(FreeListError::Guarded),
        None => Ok(()),
    }
}

struct Walk<'w, 'a, 'm, A> {
    kernel: &'w mut Kernel<'a, A>,
    layout: Layout,
    free: &'w mut PageMap<'m>,
}

/// A range of page frame numbers.
#[derive(Clone, Copy)]
struct Node {
    first: u64,
    pages: u64,
}

impl<A: AddressSpace> Walk<'_, '_, '_, A> {
    fn node(&mut self, number: u64, node: u64) -> Result<u64, FreeListError> {
        let layout = self.layout.node;
        let zones = self.kernel.half(node.wrapping_add(layout.zone_count))?;
        let named = self.kernel.half(node.wrapping_add(layout.number))?;
        if u64::from(named) != number || u64::from(zones) > layout.most_zones {
            return Err(FreeListError::Node(number));
        }
        let span = Node {
            first: self.kernel.word(node.wrapping_add(layout.start))?,
            pages: self.kernel.word(node.wrapping_add(layout.spanned))?,
        };
        let first = node.wrapping_add(layout.zones);
        (0..u64::from(zones))
            .map(|zone| self.zone(span, first.wrapping_add(zone * self.layout.zone.bytes)))
            .sum()
    }

    fn zone(&mut self, node: Node, zone: u64) -> Result<u64, FreeListError> {
        let layout = self.layout.zone;
        // The lists of a zone without pages may be uninitialised.
        let is_empty = self.kernel.word(zone.wrapping_add(layout.spanned))? == 0;
        let mut pages = 0;
        for order in 0..layout.orders {
            let area = zone.wrapping_add(layout.areas + order * layout.area_bytes);
            let counted = self.kernel.word(area.wrapping_add(layout.count()))?;
            let mut listed = 0;
            for number in 0..if is_empty { 0 } else { layout.lists } {
                listed += self.list(node, area.wrapping_add(layout.list(number)), order)?;
            }
            if listed != counted {
                return Err(FreeListError::Blocks {
                    order,
                    counted,
                    listed,
                });
            }
            pages += listed << order;
        }
        let counted = self.kernel.word(zone.wrapping_add(layout.free_pages))?;
        if counted.abs_diff(pages) > SLACK {
            return Err(FreeListError::Pages {
                counted,
                listed: pages,
            });
        }
        Ok(pages)
    }

    /// Walks a list and counts its blocks. It terminates because no block is accepted
    /// twice.
    fn list(&mut self, node: Node, list: u64, order: u64) -> Result<u64, FreeListError> {
        let mut blocks = 0;
        let mut before = list;
        let mut links = self.kernel.word(list)?;
        while links != list {
            if !self.take(node, links, order)? || self.kernel.word(links.wrapping_add(8))? != before
            {
                return Err(FreeListError::Block { list, block: links });
            }
            blocks += 1;
            before = links;
            links = self.kernel.word(links)?;
        }
        if self.kernel.word(list.wrapping_add(8))? != before {
            return Err(FreeListError::Block { list, block: list });
        }
        Ok(blocks)
    }

    /// Adds the block whose links are at `links` to the free pages. Returns false if
    /// there is no valid block.
    fn take(&mut self, node: Node, links: u64, order: u64) -> Result<bool, FreeListError> {
        let layout = self.layout.page;
        let page = links.wrapping_sub(layout.links);
        let end = page.checked_add(layout.bytes);
        let in_array = layout.start <= page && end.is_some_and(|end| end <= layout.end);
        let offset = page.wrapping_sub(layout.array);
        let first = offset / layout.bytes;
        let pages = 1 << order;
        let placed = in_array
            && offset.is_multiple_of(layout.bytes)
            && first.is_multiple_of(pages)
            && first >= node.first
            && first - node.first <= node.pages.saturating_sub(pages)
            && pages <= node.pages;
        if !placed
            || self.kernel.half(page.wrapping_add(layout.mark))? != layout.free
            || self.kernel.word(page.wrapping_add(layout.order))? != order
        {
            return Ok(false);
        }
        let memory = self.kernel.memory;
        let Some(address) = first.checked_mul(PAGE_BYTES) else {
            return Ok(false);
        };
        Ok(memory.contains(address, pages * PAGE_BYTES)
            && memory
                .page_at(address)
                .is_some_and(|page| self.free.insert_new(memory.index_of(page), pages)))
    }
}
