use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::{PAGE_BYTES, PhysRange};
use thiserror::Error;

use crate::bound::{self, TooMany};
use crate::hart::{Hart, ImsicFile, MAX_HARTS, find_hart};
use crate::node::{cell, cells, hart_interrupts, phandle, reg, regs};
use crate::own_size::{self, Closing};

/// Machine-level external interrupt of a hart.
pub(crate) const MACHINE_EXTERNAL: u32 = 11;
/// Supervisor-level external interrupt of a hart.
pub(crate) const SUPERVISOR_EXTERNAL: u32 = 9;

/// Maximum number of PLICs: one for each socket.
pub const MAX_PLICS: usize = 4;

/// Maximum number of APLIC domains of each kind: one for each socket.
pub const MAX_APLICS: usize = 4;

/// Maximum number of IMSIC nodes of each privilege level: one for each socket.
pub const MAX_IMSICS: usize = 4;

const APLICS: &str = "APLIC domains of one privilege level";
const IMSICS: &str = "IMSIC nodes of one privilege level";

/// Maximum number of machine-mode contexts of a PLIC, including those of monitor cores.
pub const MAX_MACHINE_CONTEXTS: usize = 2 * MAX_HARTS;

/// The interrupt controllers of a machine: PLICs, or an APLIC with or without
/// IMSICs (RISC-V Advanced Interrupt Architecture 1.0).
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    /// The PLICs, in the tree's order.
    pub plics: ArrayVec<Plic, MAX_PLICS>,
    /// Root domains of the APLICs, which are machine mode's.
    pub machine_aplics: ArrayVec<Aplic, MAX_APLICS>,
    /// APLIC domains of the OS.
    pub os_aplics: ArrayVec<Aplic, MAX_APLICS>,
    /// Nodes of machine mode's IMSIC files.
    pub machine_imsics: ArrayVec<ImsicLayout, MAX_IMSICS>,
    /// Nodes of the OS's IMSIC files.
    pub os_imsics: ArrayVec<ImsicLayout, MAX_IMSICS>,
}

/// A PLIC (RISC-V Platform-Level Interrupt Controller 1.0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plic {
    /// Address of its registers.
    pub base: u64,
    /// Number of the last source, at most 1023; the first is 1.
    pub sources: u32,
    /// S-mode contexts of [`Machine::harts`](crate::Machine::harts), in their order.
    pub contexts: ArrayVec<u32, MAX_HARTS>,
    /// Machine-mode contexts of all cores.
    pub machine_contexts: ArrayVec<u32, MAX_MACHINE_CONTEXTS>,
}

/// One domain of an APLIC (AIA, chapter 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aplic {
    /// Address of its registers.
    pub base: u64,
    /// Number of the last source, at most 1023; the first is 1.
    pub sources: u32,
    /// This domain's numbers for [`Machine::harts`](crate::Machine::harts), in their order.
    pub harts: ArrayVec<u32, MAX_HARTS>,
    /// Phandle of the IMSIC node that takes its messages; `None` if it drives the harts by wires.
    pub msi_parent: Option<u32>,
    /// Delegated sources, as (phandle of a child domain, first, last).
    pub delegated: ArrayVec<(u32, u32, u32), 4>,
    /// The IMSIC nodes that take the messages of a root domain, and of the OS's domains below it.
    pub imsics: Option<[ImsicLayout; 2]>,
    /// In the tree, devices name a source together with its trigger mode.
    pub(crate) takes_triggers: bool,
    phandle: u32,
    children: ArrayVec<u32, 4>,
}

impl Aplic {
    /// Reads a domain; `None` if it lacks its address or its number of sources.
    fn read(node: FdtNode<'_>, harts: &[Hart]) -> Result<Option<Self>, TooMany> {
        let (Some(range), Some(sources)) = (reg(node, 0), cell(node, "riscv,num-sources")) else {
            return Ok(None);
        };
        let all = |name: &str| cells(node, name).into_iter().flatten();
        let ranges = ["riscv,delegation", "riscv,delegate"]
            .into_iter()
            .find(|name| all(name).next().is_some());
        let ranges: ArrayVec<u32, 12> = bound::collect(
            "cells of an APLIC's delegation",
            ranges.into_iter().flat_map(all),
        )?;
        let ranges = ranges.as_chunks::<3>().0.iter();
        Ok(Some(Aplic {
            base: range.start,
            sources: sources.min(1023),
            harts: supervisor_places(node, harts),
            imsics: None,
            // A property without a phandle names no node, but it still says that the domain drives
            // no wires.
            msi_parent: (node.property("msi-parent"))
                .map(|_| cell(node, "msi-parent").unwrap_or(0)),
            delegated: ranges.map(|[a, b, c]| (*a, *b, *c)).collect(),
            takes_triggers: cell(node, "#interrupt-cells") == Some(2),
            phandle: phandle(node).unwrap_or(0),
            children: bound::collect("children of an APLIC domain", all("riscv,children"))?,
        }))
    }

    pub(crate) fn phandle(&self) -> Option<u32> {
        Some(self.phandle).filter(|phandle| *phandle != 0)
    }

    /// Index of the child domain with this phandle in this domain's SOURCECFG registers.
    #[must_use]
    pub fn child_index(&self, phandle: u32) -> Option<u32> {
        self.children
            .iter()
            .position(|child| *child == phandle)
            .and_then(|index| u32::try_from(index).ok())
    }
}

/// Addresses of the interrupt files of one privilege level (AIA, section 3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImsicLayout {
    /// Address of the first hart's file, in the first group.
    pub base: u64,
    /// log2 of the pages of one hart's files.
    pub guest_bits: u32,
    /// Number of address bits for harts.
    pub hart_bits: u32,
    /// Number of address bits for groups of harts.
    pub group_bits: u32,
    /// Lowest address bit of the group number.
    pub group_shift: u32,
    phandle: u32,
}

/// Addresses at which the OS receives message-signalled interrupts: the interrupt files of its
/// harts and of their guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFiles {
    /// Address of a hart's files, and their number.
    harts: ArrayVec<(u64, u64), MAX_HARTS>,
}

/// OS domains of one APLIC have different IMSIC nodes as `msi-parent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("OS domains of the APLIC at {root:#x} send messages to different IMSIC nodes")]
pub struct TwoImsics {
    /// Address of the root domain.
    pub root: u64,
}

impl ImsicLayout {
    /// Reads a node. Also returns the maximum bytes of its files in each range of its `reg`.
    fn read(node: FdtNode<'_>) -> Option<(Self, u64)> {
        let files = u32::try_from(hart_interrupts(node).count()).unwrap_or(u32::MAX);
        let layout = ImsicLayout {
            base: reg(node, 0)?.start,
            guest_bits: cell(node, "riscv,guest-index-bits").unwrap_or(0).min(7),
            hart_bits: cell(node, "riscv,hart-index-bits")
                .unwrap_or_else(|| files.max(1).next_power_of_two().ilog2()),
            group_bits: cell(node, "riscv,group-index-bits").unwrap_or(0),
            group_shift: cell(node, "riscv,group-index-shift").unwrap_or(24),
            phandle: phandle(node).unwrap_or(0),
        };
        // Each group of harts has a range with its harts' files. If the files do not fit there,
        // `reg` is wrong; then a group has at most 2^`hart_bits` harts.
        let most = match (regs(node).count(), layout.group_bits) {
            (0 | 1, _) => u64::from(files),
            // Several ranges without groups: the tree does not say which harts have their files in
            // which range.
            (_, 0) => 0,
            _ => u64::from(files).min(1 << layout.hart_bits.min(31)),
        };
        Some((layout, most * layout.file_bytes()))
    }

    /// The number by which an APLIC addresses a hart of the first group; `None` for a file
    /// elsewhere.
    #[must_use]
    pub fn hart_number(&self, file: u64) -> Option<u32> {
        let number = file.checked_sub(self.base)? / self.file_bytes();
        let number = u32::try_from(number).ok()?;
        (number >> self.hart_bits.min(31) == 0).then_some(number)
    }

    /// Returns whether a message of this node's APLIC can go to the file at this address: some
    /// number of a group, a hart and a guest forms it (AIA, section 3.6). The tree may have no such
    /// hart.
    #[must_use]
    pub fn reaches(&self, file: u64) -> bool {
        let field = |bits: u32, shift: u32| {
            let numbers = (1_u64.checked_shl(bits).unwrap_or(0)).wrapping_sub(1);
            numbers.checked_shl(shift).unwrap_or(0)
        };
        let harts = field(self.guest_bits + self.hart_bits.min(52), PAGE_BYTES.ilog2());
        let numbers = harts | field(self.group_bits, self.group_shift);
        (file ^ self.base) & !numbers == 0
    }

    fn file_bytes(&self) -> u64 {
        PAGE_BYTES << self.guest_bits
    }
}

impl MessageFiles {
    /// Files of these harts, each with `guests` guest files (GEILEN). The layout may reserve more
    /// room for guests; no file is in the rest.
    #[must_use]
    pub fn new(harts: &[Hart], guests: u32) -> Self {
        let files = harts.iter().filter_map(|hart| hart.os_imsic);
        let number = |file: ImsicFile| (u64::from(guests) + 1).min(1 << file.guest_bits);
        MessageFiles {
            harts: files.map(|file| (file.address, number(file))).collect(),
        }
    }

    /// Returns whether a file receives messages at this address: a page's first register, SETEIPNUM
    /// (AIA, section 3.5).
    #[must_use]
    pub fn take(&self, address: u64) -> bool {
        self.harts.iter().any(|(first, number)| {
            let offset = address.checked_sub(*first);
            offset.is_some_and(|offset| {
                offset.is_multiple_of(PAGE_BYTES) && offset / PAGE_BYTES < *number
            })
        })
    }
}

impl Interrupts {
    pub(crate) fn take_plic(
        &mut self,
        node: FdtNode<'_>,
        harts: &[Hart],
        closing: &mut Closing<'_>,
    ) -> Result<(), TooMany> {
        let (Some(range), Some(sources)) = (reg(node, 0), cell(node, "riscv,ndev")) else {
            return Ok(());
        };
        let contexts = hart_interrupts(node).count() as u64;
        closing.own(node, range, own_size::plic(contexts))?;
        let of_machine = (0..).zip(hart_interrupts(node));
        let of_machine = of_machine.filter(|(_, (_, interrupt))| *interrupt == MACHINE_EXTERNAL);
        let plic = Plic {
            base: range.start,
            sources: sources.min(1023),
            contexts: supervisor_places(node, harts),
            machine_contexts: bound::collect(
                "machine-mode contexts of a PLIC",
                of_machine.map(|(context, _)| context),
            )?,
        };
        bound::push(&mut self.plics, "PLICs", plic)
    }

    pub(crate) fn take_aplic(
        &mut self,
        node: FdtNode<'_>,
        harts: &[Hart],
        closing: &mut Closing<'_>,
    ) -> Result<(), TooMany> {
        // A domain without the properties that the firmware needs is closed to the OS, too.
        close_aplic(node, closing)?;
        let is_machines = is_machine_level(node);
        match Aplic::read(node, harts)? {
            Some(aplic) if !aplic.children.is_empty() => {
                bound::push(&mut self.machine_aplics, APLICS, aplic)
            }
            Some(aplic) if !is_machines => bound::push(&mut self.os_aplics, APLICS, aplic),
            _ => Ok(()),
        }
    }

    pub(crate) fn take_imsics(
        &mut self,
        node: FdtNode<'_>,
        harts: &mut [Hart],
        closing: &mut Closing<'_>,
    ) -> Result<(), TooMany> {
        let Some((layout, most)) = ImsicLayout::read(node) else {
            return Ok(());
        };
        // Without this property the firmware cannot use the files. Machine mode's files are closed
        // to the OS even then.
        let identities = cell(node, "riscv,num-ids");
        let is_machines = is_machine_level(node);
        let files = hart_interrupts(node).count() as u64;
        let bytes = layout.file_bytes();
        let rooms = regs(node).map(|range| range.length() / bytes);
        let room = rooms.fold(0, u64::saturating_add);
        let mut controllers = hart_interrupts(node);
        for range in regs(node) {
            let whole = match is_machines {
                true => closing.close(node, range, most)?,
                false => range,
            };
            let Some(identities) = identities else {
                continue;
            };
            let group = if room < files { whole } else { range };
            let addresses = file_addresses(group, bytes);
            for (address, (controller, interrupt)) in addresses.zip(controllers.by_ref()) {
                let file = ImsicFile {
                    address,
                    identities: identities.min(2047),
                    guest_bits: layout.guest_bits,
                };
                match (find_hart(harts, controller), interrupt) {
                    (Some(hart), MACHINE_EXTERNAL) => hart.machine_imsic = Some(file),
                    (Some(hart), SUPERVISOR_EXTERNAL) => hart.os_imsic = Some(file),
                    _ => {}
                }
            }
        }
        let level = match is_machines {
            true => &mut self.machine_imsics,
            false => &mut self.os_imsics,
        };
        match identities {
            Some(_) => bound::push(level, IMSICS, layout),
            None => Ok(()),
        }
    }

    /// Finds the IMSIC nodes of each root. Keeps only delegations to the OS's domains, and replaces
    /// their phandles by child numbers.
    ///
    /// # Errors
    ///
    /// [`TwoImsics`].
    pub(crate) fn link_domains(&mut self) -> Result<(), TwoImsics> {
        for place in 0..self.machine_aplics.len() {
            self.machine_aplics[place].imsics = self.imsics_of(&self.machine_aplics[place])?;
        }
        let of_os = &self.os_aplics;
        let is_of_os = |child| of_os.iter().any(|os| os.phandle == child);
        for root in &mut self.machine_aplics {
            root.delegated.retain(|(child, _, _)| is_of_os(*child));
            let children = root.children.clone();
            for (child, _, _) in &mut root.delegated {
                let place = children.iter().position(|phandle| phandle == child);
                *child = place
                    .and_then(|place| u32::try_from(place).ok())
                    .unwrap_or(0);
            }
        }
        Ok(())
    }

    /// The IMSIC nodes that take the messages of a root domain, and of the OS's domains below it.
    fn imsics_of(&self, root: &Aplic) -> Result<Option<[ImsicLayout; 2]>, TwoImsics> {
        let below =
            (self.os_aplics.iter()).filter(|domain| self.is_below(domain, root, MAX_APLICS));
        let mut parents = below.filter_map(|domain| domain.msi_parent);
        let parent = parents.next();
        if parents.any(|other| Some(other) != parent) {
            return Err(TwoImsics { root: root.base });
        }
        let find = |nodes: &[ImsicLayout], parent: Option<u32>| {
            let phandle = parent.filter(|phandle| *phandle != 0)?;
            nodes.iter().find(|node| node.phandle == phandle).copied()
        };
        let machine = find(&self.machine_imsics, root.msi_parent);
        let os = find(&self.os_imsics, parent);
        Ok(machine.zip(os).map(|(machine, os)| [machine, os]))
    }

    /// The IMSIC node that takes the messages of an OS's domain.
    #[must_use]
    pub fn os_imsic_of(&self, domain: &Aplic) -> Option<&ImsicLayout> {
        let phandle = domain.msi_parent.filter(|phandle| *phandle != 0)?;
        self.os_imsics.iter().find(|node| node.phandle == phandle)
    }

    /// Returns whether a domain is a child of `root`, or a child's child, to this `depth`.
    fn is_below(&self, domain: &Aplic, root: &Aplic, depth: usize) -> bool {
        let mut between = self.machine_aplics.iter();
        root.children.contains(&domain.phandle)
            || depth > 0
                && between.any(|other| {
                    root.children.contains(&other.phandle)
                        && self.is_below(domain, other, depth - 1)
                })
    }
}

/// Closes an APLIC domain of machine mode; ignores others.
pub(crate) fn close_aplic(node: FdtNode<'_>, closing: &mut Closing<'_>) -> Result<(), TooMany> {
    if let Some(range) = reg(node, 0).filter(|_| is_machine_level(node)) {
        let direct = match node.property("msi-parent") {
            Some(_) => 0,
            None => hart_interrupts(node).count() as u64,
        };
        closing.close(node, range, own_size::aplic(direct))?;
    }
    Ok(())
}

/// Closes interrupt files of machine mode; ignores others.
pub(crate) fn close_imsics(node: FdtNode<'_>, closing: &mut Closing<'_>) -> Result<(), TooMany> {
    let layout = ImsicLayout::read(node).filter(|_| is_machine_level(node));
    if let Some((_, most)) = layout {
        for range in regs(node) {
            closing.close(node, range, most)?;
        }
    }
    Ok(())
}

/// Addresses of the interrupt files in a group's range, each hart with `bytes` bytes.
fn file_addresses(group: PhysRange, bytes: u64) -> impl Iterator<Item = u64> {
    (0..group.length() / bytes).map(move |place| group.start + place * bytes)
}

/// The controller's numbers for the harts' S-level contexts, in the order of the harts.
fn supervisor_places(node: FdtNode<'_>, harts: &[Hart]) -> ArrayVec<u32, MAX_HARTS> {
    let place = |hart: &Hart| {
        let mut numbered = (0..).zip(hart_interrupts(node));
        let found = numbered.find(|(_, to)| *to == (hart.controller, SUPERVISOR_EXTERNAL))?;
        Some(found.0)
    };
    harts.iter().filter_map(place).collect()
}

/// Returns whether the node is an interrupt controller that only machine mode uses.
pub(crate) fn is_machine_level(node: FdtNode<'_>) -> bool {
    node.property("riscv,children").is_some()
        || hart_interrupts(node).any(|(_, interrupt)| interrupt == MACHINE_EXTERNAL)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files(harts: &[u64], guest_bits: u32, guests: u32) -> MessageFiles {
        let hart = |file: &u64| Hart {
            os_imsic: Some(ImsicFile {
                address: *file,
                identities: 255,
                guest_bits,
            }),
            ..Hart::default()
        };
        let harts: Vec<_> = harts.iter().map(hart).collect();
        MessageFiles::new(&harts, guests)
    }

    #[test]
    fn a_message_is_taken_at_the_file_of_a_hart_or_a_guest_and_nowhere_else() {
        // Two groups of three harts and one, each with a guest's file.
        let files = files(&[0x2800_0000, 0x2800_2000, 0x2800_4000, 0x2900_0000], 1, 1);
        for file in [0, 0x1000, 0x2000, 0x5000, 0x100_0000, 0x100_1000] {
            assert!(files.take(0x2800_0000 + file), "{file:#x}");
        }
        for other in [4, 0x800, 0x6000, 0x7000, 0x8000, 0x100_2000, 0x200_0000] {
            assert!(!files.take(0x2800_0000 + other), "{other:#x}");
        }
        assert!(!files.take(0x2400_0000));
        assert!(!files.take(0));
    }

    #[test]
    fn where_no_hart_has_files_no_message_is_taken() {
        assert!(!files(&[], 0, 0).take(0x2800_0000));
        let none = MessageFiles::new(&[Hart::default()], 5);
        assert!(!none.take(0) && !none.take(0x2800_0000));
    }

    proptest! {
        /// Of three guests' files for which there is room a hart may have fewer.
        #[test]
        fn the_pages_that_take_messages_are_those_of_files(
            count in 1_u64..8,
            guests in 0_u32..6,
            page in 0_u64..64,
            offset in prop_oneof![Just(0_u64), 1_u64..0x1000],
        ) {
            let stride = 4;
            let harts: Vec<_> =
                (0..count).map(|hart| 0x2800_0000 + hart * stride * PAGE_BYTES).collect();
            let files = files(&harts, 2, guests);
            let is_file = offset == 0
                && page / stride < count
                && page % stride <= u64::from(guests);
            prop_assert_eq!(files.take(0x2800_0000 + page * PAGE_BYTES + offset), is_file);
        }
    }
}
