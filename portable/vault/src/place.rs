use core::ops::Range;

/// Erase blocks that a vault takes.
pub const BLOCKS: u32 = 4;

/// Where the vault lies in a bank of flash of `bank_bytes` whose erase blocks
/// have `block_bytes` (for chips side by side: of all of them together): its
/// last [`BLOCKS`] blocks, in bytes from the start of the bank. `None` when the
/// bank is not of whole blocks or has fewer.
///
/// Firmware and host command both ask here, so they find the same place.
#[must_use]
pub fn range_in_bank(bank_bytes: u64, block_bytes: u64) -> Option<Range<u64>> {
    if block_bytes == 0 || !bank_bytes.is_multiple_of(block_bytes) {
        return None;
    }
    let length = block_bytes.checked_mul(u64::from(BLOCKS))?;
    Some(bank_bytes.checked_sub(length)?..bank_bytes)
}

/// How much of a partition of `bytes` a vault takes: its first [`BLOCKS`] blocks, or all
/// of one that is too short, which [`Vault::open`](crate::Vault::open) refuses.
#[must_use]
pub fn vault_bytes(bytes: u64, block_bytes: u64) -> u64 {
    bytes.min(block_bytes.saturating_mul(u64::from(BLOCKS)))
}

/// Where a vault that ends at `end` would begin its blocks, if these have the usual length:
/// for a glance, before anything is known of the flash. Most machines have none, and
/// every start pays for it.
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
