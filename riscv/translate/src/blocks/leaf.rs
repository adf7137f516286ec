//! What a fence of one address means.

/// Returns whether a page's leaf has an address. A fence of one address means all of its leaf.
/// `shift`: log2 of the leaf's bytes.
pub(super) fn has(page: u64, shift: u8, address: u64) -> bool {
    (page ^ address) >> shift == 0
}
