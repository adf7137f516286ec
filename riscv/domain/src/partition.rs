//! Domains of a machine with a partition, from their nodes in the device tree.

use arrayvec::ArrayVec;
use poorwill_devicetree::{DomainNode, MAX_SPANS, NodeName, Span, tree_place};
use poorwill_memory::{MemoryMap, MemoryMapError, PhysRange};
use thiserror::Error;

use crate::check::Grant;
use crate::claims::INSTRUCTION_BYTES;
use crate::domain::{Domain, MAX_DEVICES, MAX_FOREIGN, NextStage, Rights, StageTree};
use crate::fw_dynamic::{FwDynamic, TREE_GROWTH};
use crate::harts::{HartSet, HartSetError};
use crate::kept::KeptRanges;
use crate::pmp::physical;

/// Why a node cannot become a domain.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DomainError {
    #[error("domain {domain}: {error}")]
    Harts {
        domain: NodeName,
        error: HartSetError,
    },
    #[error("domain {domain}: {error}")]
    Memory {
        domain: NodeName,
        error: MemoryMapError,
    },
    #[error("domain {domain}: its next stage at {address:#x} is not in its memory")]
    NextStage { domain: NodeName, address: u64 },
    #[error("domain {0} has more than {MAX_DEVICES} ranges of devices; join its regions")]
    TooManyDevices(NodeName),
    #[error(
        "domain {0} has the machine's device tree, and more than {MAX_FOREIGN} ranges of memory are \
         not its own; join its regions, or give it a tree by `next-arg1`"
    )]
    TooManyForeign(NodeName),
}

/// The next stage of a domain, as the previous boot stage loaded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedStage {
    /// Physical address of its first instruction.
    pub address: u64,
    /// Its second argument.
    pub argument: u64,
    /// Its memory.
    pub image: PhysRange,
    /// The device tree at `argument`, with room to grow; `None` if there is no tree.
    pub tree: Option<PhysRange>,
}

impl LoadedStage {
    /// Finds the next stage of a domain. Where its node leaves a choice, `previous` decides. `load`
    /// fills a buffer from an address; it is called only for addresses in `memory`, all memory of
    /// the machine.
    pub fn find(
        node: &DomainNode,
        previous: &FwDynamic,
        memory: &[PhysRange],
        load: fn(u64, &mut [u8]),
    ) -> Self {
        let address = node.next_address.unwrap_or(previous.address);
        let argument = node.next_argument.unwrap_or(previous.tree.start);
        let stage = FwDynamic {
            address,
            ..*previous
        };
        let [image, _] = stage.taken(memory, load);
        let rest = memory.iter().find(|range| range.contains(argument));
        let tree = rest.and_then(|rest| {
            let tree = FwDynamic::find_tree(argument, load).ok();
            tree.filter(|tree| tree.end <= rest.end)
        });
        LoadedStage {
            address,
            argument,
            image,
            tree: tree.map(|tree| PhysRange::new(tree.start, tree.length() + TREE_GROWTH)),
        }
    }

    /// Its memory and its tree's.
    pub fn taken(&self) -> impl Iterator<Item = PhysRange> {
        [self.image].into_iter().chain(self.tree)
    }
}

/// Memory of a node's domain: what it may use of the machine's `memory`. Ranges with permissions
/// that [`check`](crate::check::check) refuses are left out.
///
/// # Errors
///
/// [`DomainError::Memory`].
pub fn memory_of(
    node: &DomainNode,
    memory: &[PhysRange],
) -> Result<ArrayVec<PhysRange, MAX_SPANS>, DomainError> {
    let mut ranges = ArrayVec::new();
    let spans = node.spans();
    let is_memory = |span: &&Span| !span.is_mmio && Grant::of(span) == Some(Grant::All);
    for span in spans.iter().filter(is_memory) {
        for range in memory.iter().filter_map(|all| common(all, &span.range)) {
            // The machine's ranges lie apart, so they cut a span only where memory ends.
            if ranges.try_push(range).is_err() {
                return Err(DomainError::Memory {
                    domain: node.name,
                    error: MemoryMapError::TooManyRanges,
                });
            }
        }
    }
    Ok(ranges)
}

/// The machine of a partition's domains.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// All memory of the machine.
    pub memory: &'a [PhysRange],
    /// Memory of machine mode or of others.
    pub holes: &'a [PhysRange],
    /// The ranges that machine mode keeps.
    pub kept: &'a KeptRanges,
    /// Memory in use when the next stages start.
    pub reserved: &'a [PhysRange],
    /// Address of the machine's device tree.
    pub tree: u64,
}

impl Domain {
    /// Makes the domain of a node, whose next stage is `stage`.
    ///
    /// # Errors
    ///
    /// [`DomainError`].
    pub fn of_node(
        node: &DomainNode,
        stage: &LoadedStage,
        around: &Surroundings<'_>,
    ) -> Result<Self, DomainError> {
        let domain = node.name;
        let harts = HartSet::new(node.harts.iter().copied());
        let harts = harts.map_err(|error| DomainError::Harts { domain, error })?;
        let own = memory_of(node, around.memory)?;
        let memory = MemoryMap::new(&own, around.holes);
        let memory = memory.map_err(|error| DomainError::Memory { domain, error })?;
        let [devices, registers] = devices_of(node, around)?;
        let has_machines_tree = stage.tree.is_some_and(|tree| tree.start == around.tree);
        let made = Domain {
            harts,
            flash: ArrayVec::new(),
            devices,
            registers,
            foreign: match has_machines_tree {
                true => Some(foreign(node, &own, around.memory)?),
                false => None,
            },
            next_stage: stage.next_stage(memory.ranges(), around.reserved),
            memory,
            rights: Rights::of_node(node),
        };
        match made.entry() {
            Ok(_) => Ok(made),
            Err(_) => Err(DomainError::NextStage {
                domain,
                address: stage.address,
            }),
        }
    }
}

impl Domain {
    /// Limits the domain of a whole machine to a [lone](poorwill_devicetree::Partition::lone) one's
    /// node. Its memory is [of that node](memory_of) already, and its next stage is `stage`.
    /// `memory` is all of the machine, and `tree` the address of the machine's device tree.
    ///
    /// # Errors
    ///
    /// [`DomainError`].
    pub fn limit(
        &mut self,
        node: &DomainNode,
        stage: &LoadedStage,
        memory: &[PhysRange],
        tree: u64,
    ) -> Result<(), DomainError> {
        let domain = node.name;
        let harts = HartSet::new(node.harts.iter().copied());
        let harts = harts.map_err(|error| DomainError::Harts { domain, error })?;
        let spans = node.spans();
        let is_whole = harts == self.harts && has_everything(node);
        if !is_whole && stage.tree.is_some_and(|loaded| loaded.start == tree) {
            self.foreign = Some(foreign(node, &memory_of(node, memory)?, memory)?);
        }
        self.harts = harts;
        self.rights = Rights::of_node(node);
        self.next_stage.argument = stage.argument;
        self.next_stage.tree = self.next_stage.tree.filter(|_| stage.tree.is_some());
        let given = |wanted| {
            let spans = spans
                .iter()
                .filter(move |span| Grant::of(span) == Some(wanted));
            spans.filter_map(|span| physical(span.range))
        };
        self.devices = given(Grant::All).collect();
        self.registers = given(Grant::ReadWrite).collect();
        self.flash.retain(|bank| {
            let mut open = given(Grant::All);
            open.any(|range| range.start <= bank.start && bank.end <= range.end)
        });
        Ok(())
    }
}

const _: () = assert!(MAX_SPANS <= MAX_DEVICES);

/// Returns whether a node's regions are all addresses, with all permissions.
#[must_use]
pub fn has_everything(node: &DomainNode) -> bool {
    match &node.spans()[..] {
        [all] => {
            let PhysRange { start, end } = all.range;
            start == 0 && end == u64::MAX && Grant::of(all) == Some(Grant::All)
        }
        _ => false,
    }
}

impl LoadedStage {
    /// Checks that the next stage lies in the memory of its node, without the `firmware`'s.
    /// `memory` is all of the machine.
    ///
    /// # Errors
    ///
    /// [`DomainError::NextStage`], or an error of its memory.
    pub fn check(
        &self,
        node: &DomainNode,
        memory: &[PhysRange],
        firmware: &[PhysRange],
    ) -> Result<(), DomainError> {
        let (domain, address) = (node.name, self.address);
        let own = memory_of(node, memory)?;
        let own = MemoryMap::new(&own, firmware);
        let own = own.map_err(|error| DomainError::Memory { domain, error })?;
        let is_code = address.is_multiple_of(INSTRUCTION_BYTES);
        (is_code && own.contains(address, INSTRUCTION_BYTES))
            .then_some(())
            .ok_or(DomainError::NextStage { domain, address })
    }

    /// The next stage of a domain with this memory, of which `reserved` is in use.
    fn next_stage(&self, memory: &[PhysRange], reserved: &[PhysRange]) -> NextStage {
        NextStage {
            address: self.address,
            argument: self.argument,
            tree: self.tree.map(|loaded| {
                let blob = PhysRange::new(loaded.start, loaded.length() - TREE_GROWTH);
                let reserved = reserved.iter().copied();
                StageTree {
                    blob,
                    loaded,
                    handed_on: tree_place(memory, reserved, self.image, blob, TREE_GROWTH),
                }
            }),
        }
    }
}

impl Rights {
    /// The rights that a node names.
    #[must_use]
    pub fn of_node(node: &DomainNode) -> Self {
        Rights {
            system_reset: node.may_reset,
            system_suspend: node.may_suspend,
        }
    }
}

type Devices = ArrayVec<PhysRange, MAX_DEVICES>;

/// Addresses of a node's devices: with instructions, and without. A region of memory gives the
/// devices that it covers, too.
fn devices_of(node: &DomainNode, around: &Surroundings<'_>) -> Result<[Devices; 2], DomainError> {
    let [mut devices, mut registers] = [Devices::new(), Devices::new()];
    let full = |_| DomainError::TooManyDevices(node.name);
    for span in around.kept.spans(node) {
        let Some(range) = physical(span.range) else {
            continue;
        };
        match Grant::of(&span) {
            Some(Grant::ReadWrite) => registers.try_push(range).map_err(full)?,
            Some(Grant::All) if span.is_mmio => devices.try_push(range).map_err(full)?,
            Some(Grant::All) => {
                for range in outside(range, around.memory) {
                    devices.try_push(range).map_err(full)?;
                }
            }
            None => {}
        }
    }
    Ok([devices, registers])
}

/// Memory of the machine that is not a node's `own`.
fn foreign(
    node: &DomainNode,
    own: &[PhysRange],
    memory: &[PhysRange],
) -> Result<ArrayVec<PhysRange, MAX_FOREIGN>, DomainError> {
    let mut all = ArrayVec::new();
    for range in memory.iter().flat_map(|range| outside(*range, own)) {
        let added = all.try_push(range);
        added.map_err(|_| DomainError::TooManyForeign(node.name))?;
    }
    Ok(all)
}

/// The parts of a range outside all of `others`, which do not overlap.
fn outside(range: PhysRange, others: &[PhysRange]) -> impl Iterator<Item = PhysRange> {
    let mut start = Some(range.start);
    core::iter::from_fn(move || {
        loop {
            let from = start.filter(|start| *start < range.end)?;
            let inside = others.iter().find(|other| other.contains(from));
            if let Some(inside) = inside {
                start = Some(inside.end);
                continue;
            }
            let later = others.iter().map(|other| other.start);
            let next = later.filter(|next| *next > from).min();
            let end = next.map_or(range.end, |next| next.min(range.end));
            start = Some(end);
            return Some(PhysRange { start: from, end });
        }
    })
}

/// The addresses in both ranges; `None` without such addresses.
fn common(one: &PhysRange, other: &PhysRange) -> Option<PhysRange> {
    one.overlaps(other).then(|| PhysRange {
        start: one.start.max(other.start),
        end: one.end.min(other.end),
    })
}
