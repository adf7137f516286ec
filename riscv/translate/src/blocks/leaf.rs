//! What a fence of one address means.

/// log2 of the bytes of the largest leaf, in Sv57 (privileged specification, 12.6).
const LARGEST_LEAF: u32 = 48;

/// Returns whether a leaf may have both addresses. A fence of one means all of its leaf.
pub(super) fn may_be_of_leaf(one: u64, other: u64) -> bool {
    (one ^ other) >> LARGEST_LEAF == 0
}
