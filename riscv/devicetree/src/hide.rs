//! Hiding what is not the OS's from the next stage: controllers of machine mode, the
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

/// Most bytes of a flash's `reg`: of four banks, with addresses and lengths of 64 bits.
const MAX_REG: usize = 64;

type NodeMut<'a, 'b> = FdtNodeMut<'a, SliceBuffer<'b>>;

/// What is to be done to a node.
enum Change {
    /// It is disabled.
    Disable,
    /// Its `reg` becomes this.
    Shorten(ArrayVec<u8, MAX_REG>),
    /// The vault's partition of this flash is disabled.
    DisablePartition,
}

/// Hides the nodes. Of a flash, of which `vault` is a part, that is the vault's partition;
/// without one its bank, or all of a flash with no other bank. `None`: there is no room.
pub(crate) fn hide(tree: &mut FdtMut<SliceBuffer<'_>>, vault: &[PhysRange]) -> Option<()> {
    hide_below(&mut tree.root_mut(), vault, 0)?;
    match tree.root_mut().child_mut("cpus") {
        Some(mut cpus) => hide_harts(&mut cpus),
        None => Some(()),
    }
}

/// Disables the harts that an OS would take for its own and cannot run on: Linux offers
/// programs what all enabled harts have in common, and a monitor core has neither F nor D.
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

/// The same for what is below a bus: as deep as the machine's devices are looked for.
// A change moves only what comes after its node, so the walk goes on from there.
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

fn disable(node: &mut NodeMut<'_, '_>) -> Option<()> {
    // A damaged tree may have it more than once, and the first one counts.
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

/// How a node is to be changed.
fn change_of(node: FdtNode<'_>, vault: &[PhysRange]) -> Option<Change> {
    // The line ends at one of the others, and nobody else takes it.
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

/// Whether the flash has a partition for the vault, hidden or not.
fn is_shared(node: FdtNode<'_>) -> bool {
    partitions(node).is_some_and(|partitions| partitions.children().any(is_vault))
}
