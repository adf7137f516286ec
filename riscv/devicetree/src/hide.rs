//! Hides nodes that are not the OS's from the next stage: controllers of machine mode, the
//! power-fail line, the vault's part of a flash, and harts that cannot run the OS.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use dtoolkit::fdt_mut::{FdtMut, FdtNodeMut, SliceBuffer};
use poorwill_memory::PhysRange;

use crate::binding::Binding;
use crate::flash::{FLASH, PARTITIONS, flash_banks, is_vault, partitions, vault_partition};
use crate::interrupts::is_machine_level;
use crate::node::{BUS_LEVELS, bytes_of, can_run_os, is_any, is_enabled, is_enabled_hart};
use crate::power_fail::POWER_FAIL;

/// Maximum bytes of a flash's `reg`: four banks, with addresses and lengths of 64 bits.
const MAX_REG: usize = 64;

pub(crate) type NodeMut<'a, 'b> = FdtNodeMut<'a, SliceBuffer<'b>>;

enum Change {
    Disable,
    /// Replace its `reg`.
    Shorten(ArrayVec<u8, MAX_REG>),
    DisablePartition,
}

/// Hides the nodes. `vault` is the vault's part of a flash: its partition is hidden, or without one
/// its bank; a flash with no other bank is disabled. `None`: the blob has no room for the changes.
pub(crate) fn hide(tree: &mut FdtMut<SliceBuffer<'_>>, vault: &[PhysRange]) -> Option<()> {
    hide_below(&mut tree.root_mut(), vault, 0)?;
    match tree.root_mut().child_mut("cpus") {
        Some(mut cpus) => hide_harts(&mut cpus),
        None => Some(()),
    }
}

/// Disables harts that an OS would use but cannot run on. Linux offers programs only the extensions
/// that all enabled harts have, and a monitor core has neither F nor D.
fn hide_harts(cpus: &mut NodeMut<'_, '_>) -> Option<()> {
    let mut nodes = cpus.children_mut();
    while let Some(mut node) = nodes.next() {
        let cpu = node.as_read_only();
        if is_enabled_hart(cpu) && !can_run_os(cpu) {
            disable(&mut node)?;
        }
    }
    Some(())
}

/// Hides nodes below a bus, to the depth of the search for the machine's devices.
// A change moves only the bytes after its node, so the walk can continue.
fn hide_below(bus: &mut NodeMut<'_, '_>, vault: &[PhysRange], level: u8) -> Option<()> {
    let mut nodes = bus.children_mut();
    while let Some(mut node) = nodes.next() {
        let found = node.as_read_only();
        if !is_enabled(found) {
            continue;
        }
        let is_bus = Binding::of(found).is_none() && level < BUS_LEVELS;
        match change_of(found, vault) {
            Some(Change::Disable) => disable(&mut node)?,
            Some(Change::Shorten(reg)) => {
                while node.remove_property("reg") {}
                node.add_property("reg", &reg[..]).ok()?;
            }
            Some(Change::DisablePartition) => {
                disable_partition(&mut node.child_mut(PARTITIONS)?)?;
            }
            None if is_bus => hide_below(&mut node, vault, level + 1)?,
            None => {}
        }
    }
    Some(())
}

/// Disables the node; `None`: the blob has no room for that.
pub(crate) fn disable(node: &mut NodeMut<'_, '_>) -> Option<()> {
    // A damaged tree may have the property several times, and readers take the first one.
    while node.remove_property("status") {}
    node.add_property("status", "disabled").ok()?;
    Some(())
}

fn disable_partition(partitions: &mut NodeMut<'_, '_>) -> Option<()> {
    let mut nodes = partitions.children_mut();
    while let Some(mut node) = nodes.next() {
        let partition = node.as_read_only();
        if is_enabled(partition) && is_vault(partition) {
            return disable(&mut node);
        }
    }
    Some(())
}

fn change_of(node: FdtNode<'_>, vault: &[PhysRange]) -> Option<Change> {
    // A machine-mode controller takes the power-fail line; no OS driver does.
    const KEPT: [&str; 3] = ["riscv,imsics", "riscv,aplic", POWER_FAIL];
    if is_any(node, &KEPT) && (is_machine_level(node) || is_any(node, &[POWER_FAIL])) {
        return Some(Change::Disable);
    }
    let is_vaults = |bank: &PhysRange| vault.iter().any(|range| range.overlaps(bank));
    let has_vault = is_any(node, &[FLASH]) && flash_banks(node).any(|bank| is_vaults(&bank));
    if !has_vault {
        return None;
    }
    if is_shared(node) {
        return vault_partition(node).map(|_| Change::DisablePartition);
    }
    let value = node.property("reg").map(bytes_of)?;
    let entry = value.len().checked_div(flash_banks(node).count())?;
    let kept = flash_banks(node).zip(value.chunks_exact(entry));
    let kept = kept.filter(|(bank, _)| !is_vaults(bank));
    let mut reg = ArrayVec::new();
    for (_, bytes) in kept {
        reg.try_extend_from_slice(bytes).ok()?;
    }
    Some(match reg.is_empty() {
        true => Change::Disable,
        false => Change::Shorten(reg),
    })
}

/// Returns whether the flash has a partition for the vault, enabled or not.
fn is_shared(node: FdtNode<'_>) -> bool {
    partitions(node).is_some_and(|partitions| partitions.children().any(is_vault))
}
