use core::ops::Range;

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use dtoolkit::{Node, Property};
use poorwill_memory::PhysRange;

use crate::bound::{self, TooMany};
use crate::node::{cell, is_any, is_enabled, reg};

const MAX_BANKS: usize = 4;

/// The binding of [`Flash`].
pub(crate) const FLASH: &str = "cfi-flash";

const VAULT: &[u8] = b"poorwill-vault\0";

/// NOR flash with the Common Flash Interface (CFI).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flash {
    /// Its banks, in the tree's order.
    pub banks: ArrayVec<PhysRange, MAX_BANKS>,
    /// Width of a bank's bus in bytes: 1, 2, 4 or 8.
    pub width: u32,
    /// Location of the vault.
    pub vault: VaultPlace,
}

/// The tree's statement about the vault's location in a flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaultPlace {
    /// No statement: the vault may be in the last bank, if that bank's contents allow it.
    Unsaid,
    /// Only in this partition, which lies in one bank.
    Partition(PhysRange),
    /// The vault's partition does not lie in one bank.
    Nowhere,
}

/// A bank that may hold the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultBank {
    /// The bank.
    pub bank: PhysRange,
    /// The vault's part of the bank, if there is a vault: a partition, or all.
    pub own: PhysRange,
    /// The partition, in bytes from the bank's start.
    pub partition: Option<Range<u64>>,
}

impl Flash {
    /// Reads a flash; `None` if its width is missing or unsupported.
    pub(crate) fn read(node: FdtNode<'_>) -> Result<Option<Self>, TooMany> {
        let Some(width @ (1 | 2 | 4 | 8)) = cell(node, "bank-width") else {
            return Ok(None);
        };
        let banks = bound::collect("banks of flash", flash_banks(node))?;
        let vault = match vault_partition(node) {
            None => VaultPlace::Unsaid,
            Some(partition) => partition_range(&banks, partition)
                .map_or(VaultPlace::Nowhere, VaultPlace::Partition),
        };
        Ok(Some(Flash {
            banks,
            width,
            vault,
        }))
    }

    /// The bank with the vault's partition, or else the last bank, since the first ones may hold
    /// code. `None`: the flash has no place for a vault.
    #[must_use]
    pub fn vault_bank(&self) -> Option<VaultBank> {
        match self.vault {
            VaultPlace::Unsaid => {
                let bank = *self.banks.last()?;
                Some(VaultBank {
                    bank,
                    own: bank,
                    partition: None,
                })
            }
            VaultPlace::Partition(own) => {
                let bank = *self.banks.iter().find(|bank| bank.overlaps(&own))?;
                let partition = own.start - bank.start..own.end - bank.start;
                Some(VaultBank {
                    bank,
                    own,
                    partition: Some(partition),
                })
            }
            VaultPlace::Nowhere => None,
        }
    }

    /// The OS's part of the flash: all but the vault's part, which lies in one bank.
    pub fn of_os(&self, vault: Option<PhysRange>) -> impl Iterator<Item = PhysRange> + '_ {
        let without = move |bank: &PhysRange| {
            let hole = vault.filter(|vault| vault.overlaps(bank));
            let behind = PhysRange::new(bank.end, 0);
            let hole = hole.unwrap_or(behind);
            [(bank.start, hole.start), (hole.end, bank.end)]
        };
        let parts = self.banks.iter().flat_map(without);
        let parts = parts.map(|(start, end)| PhysRange { start, end });
        parts.filter(|part| part.length() > 0)
    }
}

/// The banks of a flash node: the ranges of its `reg`.
pub(crate) fn flash_banks(node: FdtNode<'_>) -> impl Iterator<Item = PhysRange> {
    (0..=MAX_BANKS).map_while(move |index| reg(node, index))
}

pub(crate) const PARTITIONS: &str = "partitions";

/// The partitions of a flash (Linux's binding `mtd/partitions/fixed-partitions.yaml`).
pub(crate) fn partitions<'a>(node: FdtNode<'a>) -> Option<FdtNode<'a>> {
    node.child(PARTITIONS)
        .filter(|partitions| is_any(*partitions, &["fixed-partitions"]))
}

pub(crate) fn vault_partition<'a>(node: FdtNode<'a>) -> Option<FdtNode<'a>> {
    let mut children = partitions(node)?.children();
    children.find(|partition| is_enabled(*partition) && is_vault(*partition))
}

pub(crate) fn is_vault(partition: FdtNode<'_>) -> bool {
    let label = partition.property("label");
    label.is_some_and(|label| label.value() == VAULT)
}

/// Addresses of a partition. Its offset counts from the start of the first bank, over all banks.
/// `None` if it is not within one bank.
fn partition_range(banks: &[PhysRange], partition: FdtNode<'_>) -> Option<PhysRange> {
    let PhysRange { mut start, end } = reg(partition, 0)?;
    let length = end - start;
    for bank in banks {
        if start < bank.length() {
            let range = PhysRange::new(bank.start.checked_add(start)?, length);
            return (length > 0 && range.end <= bank.end).then_some(range);
        }
        start -= bank.length();
    }
    None
}
