//! Checks whether blobs in memory can be read, and whether they can be edited.
//!
//! dtoolkit refuses names that Linux, dtc, libfdt and OpenSBI accept. The specification limits
//! names to 31 characters (2.2.1, 2.2.4); trees of real boards exceed that. So this module checks a
//! blob's form itself, by rules about bytes alone. dtoolkit then reads the checked blob.

use dtoolkit::fdt::Fdt;
use dtoolkit::fdt_mut::{FdtMut, SliceBuffer};

use crate::raw::{END, NOP, block, field, word};
use crate::tokens::{Blocks, Reader};

/// The first word of a blob (Devicetree Specification 0.4, 5.2).
const MAGIC: u32 = 0xd00d_feed;
/// The supported version of the format.
const VERSION: u32 = 17;
const HEADER_BYTES: usize = 40;
/// Bytes of an entry of the memory reservation block; the last entry is zero (5.3).
const RESERVATION_BYTES: usize = 16;

/// Opens a blob of exactly these bytes; `None` for a damaged one.
///
/// Names may have any length and any characters. They are text, and only the root's is empty.
#[must_use]
pub fn open(blob: &[u8]) -> Option<Fdt<'_>> {
    (has_good_header(blob) && ends_reservations(blob) && ends_structure(blob))
        .then(|| Fdt::new_unchecked(blob))
}

/// Opens the blob at the start of `buffer` for edits in place; the rest of the buffer is room to
/// grow. `None` for a damaged blob.
#[must_use]
pub fn edit(buffer: &mut [u8]) -> Option<FdtMut<SliceBuffer<'_>>> {
    let total = word(buffer, field::TOTAL_SIZE)? as usize;
    let blob = buffer.get(..total)?;
    open(blob)?;
    // An edit looks for a name among all strings.
    if !Blocks::of(blob)?.has_only_strings() {
        return None;
    }
    Some(FdtMut::from_slice_unchecked(buffer))
}

/// Checks that the header's blocks lie within the blob, one after the other.
fn has_good_header(blob: &[u8]) -> bool {
    let at = |offset| word(blob, offset).unwrap_or(0);
    let is_this_format = blob.len() >= HEADER_BYTES
        && at(0) == MAGIC
        && at(field::TOTAL_SIZE) as usize == blob.len()
        && (at(field::LAST_COMPATIBLE)..=at(field::VERSION)).contains(&VERSION);
    let reservations = at(field::RESERVATIONS) as usize;
    let structure = block(blob, field::STRUCTURE, field::STRUCTURE_SIZE);
    let strings = block(blob, field::STRINGS, field::STRINGS_SIZE);
    let (Some((structure, end)), Some((strings, _))) = (structure, strings) else {
        return false;
    };
    is_this_format
        && (HEADER_BYTES..=structure).contains(&reservations)
        && reservations.is_multiple_of(8)
        && structure.is_multiple_of(4)
        && end <= strings
}

/// Checks that the memory reservation block ends before the structure begins.
fn ends_reservations(blob: &[u8]) -> bool {
    let start = word(blob, field::RESERVATIONS).unwrap_or(0) as usize;
    let end = word(blob, field::STRUCTURE).unwrap_or(0) as usize;
    let entries = blob.get(start..end).unwrap_or_default();
    let mut entries = entries.chunks_exact(RESERVATION_BYTES);
    entries.any(|entry| entry.iter().all(|byte| *byte == 0))
}

/// Checks that the structure block holds one whole node, the root, and its end.
fn ends_structure(blob: &[u8]) -> bool {
    let Some(blocks) = Blocks::of(blob) else {
        return false;
    };
    let mut reader = Reader::new(&blocks);
    loop {
        let Some(next) = reader.next(&blocks) else {
            return false;
        };
        reader = next;
        if reader.depth == 0 && blocks.token(reader.at) != Some(NOP) {
            break;
        }
    }
    blocks.token(reader.at) == Some(END)
}
