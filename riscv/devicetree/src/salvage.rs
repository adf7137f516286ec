//! Salvages the part of a damaged tree that precedes the damage.

use crate::blob::open;
use crate::raw::{END, END_NODE, field, set_word};
use crate::tokens::{Blocks, Reader};

/// Ends a damaged structure block just before its first unreadable token, by closing all open
/// nodes. The console and the switches may precede the damage, so the error can be printed. The
/// tree must not be used for anything else. Returns whether a tree can now be read.
pub(crate) fn salvage(blob: &mut [u8]) -> bool {
    shorten(blob).is_some() && open(blob).is_some()
}

fn shorten(blob: &mut [u8]) -> Option<()> {
    let blocks = Blocks::of(blob)?;
    let (start, end) = (blocks.start, blocks.end());
    let mut reader = Reader::new(&blocks);
    while let Some(next) = reader.next(&blocks) {
        reader = next;
        if reader.depth == 0 {
            break;
        }
    }
    let closed = reader.at.checked_add(4 * (reader.depth + 1))?;
    // Without a root node there is nothing to close.
    if reader.at == start || closed > end {
        return None;
    }
    for node in 0..reader.depth {
        set_word(blob, reader.at + 4 * node, END_NODE);
    }
    set_word(blob, closed - 4, END);
    let length = u32::try_from(closed - start).ok()?;
    set_word(blob, field::STRUCTURE_SIZE, length);
    Some(())
}
