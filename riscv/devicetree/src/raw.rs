//! Numbers and offsets of a blob's format (Devicetree Specification 0.4, chapter 5).

/// Tokens of the structure block (5.4.1).
pub(crate) const BEGIN_NODE: u32 = 1;
pub(crate) const END_NODE: u32 = 2;
pub(crate) const PROPERTY: u32 = 3;
pub(crate) const NOP: u32 = 4;
pub(crate) const END: u32 = 9;

/// Header fields, by offset (5.2).
pub(crate) mod field {
    pub(crate) const TOTAL_SIZE: usize = 4;
    pub(crate) const STRUCTURE: usize = 8;
    pub(crate) const STRINGS: usize = 12;
    pub(crate) const RESERVATIONS: usize = 16;
    pub(crate) const VERSION: usize = 20;
    pub(crate) const LAST_COMPATIBLE: usize = 24;
    pub(crate) const STRINGS_SIZE: usize = 32;
    pub(crate) const STRUCTURE_SIZE: usize = 36;
}

pub(crate) fn word(blob: &[u8], offset: usize) -> Option<u32> {
    let bytes = blob.get(offset..offset.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// Writes a word, which must be within the blob.
pub(crate) fn set_word(buffer: &mut [u8], offset: usize, value: u32) {
    buffer[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
}

/// Start and end of a block, from the header fields at offsets `start` and `size`.
pub(crate) fn block(blob: &[u8], start: usize, size: usize) -> Option<(usize, usize)> {
    let (start, size) = (word(blob, start)? as usize, word(blob, size)? as usize);
    let end = start.checked_add(size)?;
    (end <= blob.len()).then_some((start, end))
}
