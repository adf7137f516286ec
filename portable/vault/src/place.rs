use core::ops::Range;

/// The number of a vault's erase blocks.
pub const BLOCKS: u32 = 4;

/// The vault's range in a flash bank of `bank_bytes` bytes: its last [`BLOCKS`] erase
/// blocks, in bytes from the start of the bank. `block_bytes` is the length of an erase
/// block, over all chips side by side. `None` if the bank is not of whole blocks or has
/// too few.
///
/// Firmware and host command both use this function, so they find the same range.
#[must_use]
pub fn range_in_bank(bank_bytes: u64, block_bytes: u64) -> Option<Range<u64>> {
    if block_bytes == 0 || !bank_bytes.is_multiple_of(block_bytes) {
        return None;
    }
    let length = block_bytes.checked_mul(u64::from(BLOCKS))?;
    Some(bank_bytes.checked_sub(length)?..bank_bytes)
}

/// The bytes of a partition that a vault takes: its first [`BLOCKS`] blocks. A partition
/// that is too short is taken whole, and [`Vault::open`](crate::Vault::open) refuses it.
#[must_use]
pub fn vault_bytes(bytes: u64, block_bytes: u64) -> u64 {
    bytes.min(block_bytes.saturating_mul(u64::from(BLOCKS)))
}

/// The offsets at which the blocks of a vault that ends at `end` would begin, if they
/// have the usual length. They serve a quick look before the flash is probed: most
/// machines have no vault, and every start pays for the look.
pub fn block_starts(end: u64) -> impl Iterator<Item = u64> + Clone {
    const BLOCK: u64 = 256 << 10;
    (1..=u64::from(BLOCKS)).filter_map(move |block| end.checked_sub(block * BLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vault_lies_in_the_last_four_blocks() {
        assert_eq!(range_in_bank(32 << 20, 256 << 10), Some(31 << 20..32 << 20));
        assert_eq!(range_in_bank(1 << 20, 256 << 10), Some(0..1 << 20));
        assert_eq!(range_in_bank(768 << 10, 256 << 10), None);
        assert_eq!(range_in_bank((1 << 20) + 1, 256 << 10), None);
        assert_eq!(range_in_bank(1 << 20, 0), None);
        assert_eq!(range_in_bank(1 << 63, 1 << 62), None);
    }
}
