//! Hiding what is the firmware's from the next stage: controllers of machine mode, the
//! power-fail line, and the vault's part of a flash.

use core::fmt::Write;

use arrayvec::{ArrayString, ArrayVec};
use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::fdt_mut::{FdtMut, SliceBuffer};
use poorwill_memory::PhysRange;

use crate::flash::{FLASH, flash_banks, is_vault, partitions, vault_partition};
use crate::interrupts::is_machine_level;
use crate::node::{bytes_of, is_any, is_enabled};
use crate::power_fail::POWER_FAIL;

/// Most bytes of a flash's `reg`: of four banks, with addresses and lengths of 64 bits.
const MAX_REG: usize = 64;

type Path = ArrayString<128>;

/// What is to be done to a node.
enum Change {
    /// It is disabled.
    Disable,
    /// Its `reg` becomes this.
    Shorten(ArrayVec<u8, MAX_REG>),
}

/// Hides the nodes one at a time, because each change moves what follows it. Of a flash, of
/// which `vault` is a part, that is the vault's partition; without one its bank, or all of
/// a flash with no other bank.
pub(crate) fn hide(tree: &mut FdtMut<SliceBuffer<'_>>, vault: &[PhysRange]) -> Option<()> {
    while let Some((path, change)) = next_change(tree.as_read_only(), vault) {
        let mut node = tree.find_node_mut(&path)?;
        match change {
            Change::Disable => {
                node.remove_property("status");
                node.add_property("status", "disabled").ok()?;
            }
            Change::Shorten(reg) => {
                node.remove_property("reg");
                node.add_property("reg", &reg[..]).ok()?;
            }
        }
    }
    Some(())
}

/// A node that is still to be changed, and how.
fn next_change(tree: Fdt<'_>, vault: &[PhysRange]) -> Option<(Path, Change)> {
    let buses = [("", tree.root())]
        .into_iter()
        .chain(tree.find_node("/soc").map(|soc| ("/soc", soc)));
    for (prefix, bus) in buses {
        for node in bus.children().filter(|node| is_enabled(*node)) {
            if let Some((child, change)) = change_of(node, vault) {
                let mut path = Path::new();
                write!(path, "{prefix}/{}", node.name()).ok()?;
                if let Some(child) = child {
                    write!(path, "/partitions/{}", child.name()).ok()?;
                }
                return Some((path, change));
            }
        }
    }
    None
}

/// How a node is to be changed, or the partition in it.
fn change_of<'a>(node: FdtNode<'a>, vault: &[PhysRange]) -> Option<(Option<FdtNode<'a>>, Change)> {
    // The line ends at one of the others, and nobody else takes it.
    const KEPT: [&str; 3] = ["riscv,imsics", "riscv,aplic", POWER_FAIL];
    if is_any(node, &KEPT) && (is_machine_level(node) || is_any(node, &[POWER_FAIL])) {
        return Some((None, Change::Disable));
    }
    let is_vaults = |bank: &PhysRange| vault.iter().any(|range| range.overlaps(bank));
    let has_vault = is_any(node, &[FLASH]) && flash_banks(node).any(|bank| is_vaults(&bank));
    if !has_vault {
        return None;
    }
    if is_shared(node) {
        return vault_partition(node).map(|partition| (Some(partition), Change::Disable));
    }
    let value = node.property("reg").map(bytes_of)?;
    let entry = value.len().checked_div(flash_banks(node).count())?;
    let kept = flash_banks(node).zip(value.chunks_exact(entry));
    let kept = kept.filter(|(bank, _)| !is_vaults(bank));
    let mut reg = ArrayVec::new();
    for (_, bytes) in kept {
        reg.try_extend_from_slice(bytes).ok()?;
    }
    Some((
        None,
        match reg.is_empty() {
            true => Change::Disable,
            false => Change::Shorten(reg),
        },
    ))
}

/// Whether the flash has a partition for the vault, hidden or not.
fn is_shared(node: FdtNode<'_>) -> bool {
    partitions(node).is_some_and(|partitions| partitions.children().any(is_vault))
}
