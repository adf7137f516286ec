//! Domains of a machine with a partition, from their nodes in the device tree.

use arrayvec::ArrayVec;
use poorwill_devicetree::{DomainNode, MAX_SPANS, NodeName, Span, tree_place};
use poorwill_memory::{MemoryMap, MemoryMapError, PhysRange};
use thiserror::Error;

use crate::check::Grant;
use crate::domain::{Domain, MAX_DEVICES, NextStage, Rights, StageTree};
use crate::fw_dynamic::{FwDynamic, TREE_GROWTH};
use crate::harts::{HartSet, HartSetError};

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

impl Domain {
    /// Makes the domain of a node. `memory` is [its memory](memory_of), of which `holes` belong to
    /// machine mode or to others; `reserved` is in use when its next stage `stage` starts.
    ///
    /// # Errors
    ///
    /// [`DomainError`].
    pub fn of_node(
        node: &DomainNode,
        memory: &[PhysRange],
        holes: &[PhysRange],
        stage: &LoadedStage,
        reserved: &[PhysRange],
    ) -> Result<Self, DomainError> {
        let domain = node.name;
        let harts = HartSet::new(node.harts.iter().copied());
        let harts = harts.map_err(|error| DomainError::Harts { domain, error })?;
        let memory = MemoryMap::new(memory, holes);
        let memory = memory.map_err(|error| DomainError::Memory { domain, error })?;
        let spans = node.spans();
        let [devices, registers] = [Grant::All, Grant::ReadWrite].map(|wanted| {
            let registers = spans.iter().filter(|span| span.is_mmio);
            let with_access = registers.filter(|span| Grant::of(span) == Some(wanted));
            with_access.map(|span| span.range).collect()
        });
        let made = Domain {
            harts,
            flash: ArrayVec::new(),
            devices,
            registers,
            next_stage: NextStage {
                address: stage.address,
                argument: stage.argument,
                tree: stage.tree.map(|loaded| {
                    let blob = PhysRange::new(loaded.start, loaded.length() - TREE_GROWTH);
                    let reserved = reserved.iter().copied();
                    StageTree {
                        blob,
                        loaded,
                        handed_on: tree_place(
                            memory.ranges(),
                            reserved,
                            stage.image,
                            blob,
                            TREE_GROWTH,
                        ),
                    }
                }),
            },
            memory,
            rights: Rights {
                system_reset: node.may_reset,
                system_suspend: node.may_suspend,
            },
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

const _: () = assert!(MAX_SPANS <= MAX_DEVICES);

/// The addresses in both ranges; `None` without such addresses.
fn common(one: &PhysRange, other: &PhysRange) -> Option<PhysRange> {
    one.overlaps(other).then(|| PhysRange {
        start: one.start.max(other.start),
        end: one.end.min(other.end),
    })
}
