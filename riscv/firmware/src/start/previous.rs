//! What the previous boot stage left.

use poorwill_devicetree::{DomainNode, Partition};
use poorwill_domain::{FwDynamic, LoadedStage};
use poorwill_memory::PhysRange;
use poorwill_store::RecordFormat;

use crate::domain::LoneDomain;

/// What the previous boot stage left for the next stages.
#[derive(Debug)]
pub(super) struct Previous<'a> {
    /// The machine's domains.
    pub(super) domains: Described,
    pub(super) information: &'a FwDynamic,
    /// Fills a buffer from an address in memory.
    pub(super) load: fn(u64, &mut [u8]),
}

/// The domains that the machine's device tree describes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Described {
    /// None: the machine's OS has all of it.
    None,
    /// The machine's OS has what this domain has.
    Lone(Lone),
    /// Domains that are fenced from each other.
    Fenced(&'static Partition),
}

impl Described {
    /// The hash of the partition, for the machine's identity. Without an image it takes no part.
    pub(super) fn digest(&self) -> Option<u64> {
        match self {
            Described::None => None,
            Described::Lone(lone) => Some(lone.digest),
            Described::Fenced(partition) => self.keep().map(|_| partition.digest()),
        }
    }

    /// What the machine keeps on a disk; `None`: it can only retain, as no device is machine mode's.
    pub(super) fn keep(&self) -> Option<RecordFormat> {
        match self {
            Described::None | Described::Lone(_) => Some(RecordFormat::Image),
            Described::Fenced(partition) if partition.functions.is_empty() => None,
            Described::Fenced(_) => Some(RecordFormat::Set),
        }
    }

    /// Returns whether the domains are fenced from each other.
    pub(super) fn are_fenced(&self) -> bool {
        matches!(self, Described::Fenced(_))
    }
}

impl Previous<'_> {
    /// The domain of a machine that has only one.
    pub(super) fn lone(&self) -> Option<LoneDomain<'_>> {
        match &self.domains {
            Described::Lone(lone) => Some(lone.with_tree(self.information.tree.start)),
            Described::None | Described::Fenced(_) => None,
        }
    }
}

/// The only domain of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lone {
    pub(super) node: &'static DomainNode,
    /// Its next stage.
    pub(super) stage: LoadedStage,
    /// The partition, for the machine's identity.
    pub(super) digest: u64,
}

impl Lone {
    /// The same, with the address of the machine's device tree.
    fn with_tree(&self, tree: u64) -> LoneDomain<'_> {
        LoneDomain {
            node: self.node,
            stage: &self.stage,
            tree,
        }
    }

    /// Memory of its next stage and of its device tree.
    pub(super) fn taken(&self) -> [PhysRange; 2] {
        let none = PhysRange::new(self.stage.argument, 0);
        [self.stage.image, self.stage.tree.unwrap_or(none)]
    }
}
