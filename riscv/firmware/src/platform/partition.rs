//! Sets up the domains of a partition (docs/domains.md).
#![allow(
    clippy::result_large_err,
    reason = "an error names what is wrong, and ends the start"
)]

use core::slice;

use arrayvec::ArrayVec;
use poorwill_devicetree::{
    DescriptionError, DomainNode, Fdt, MAX_DOMAINS, MAX_RESERVED, MAX_SPANS, Machine, NodeName,
    Partition, PartitionError, PciWiring, Reserved, place, reserved_of,
};
use poorwill_domain::check::{Facts, Unfenced, check};
use poorwill_domain::{Domain, DomainError, FwDynamic, LoadedStage, memory_of};
use poorwill_memory::{MAX_RANGES, MemoryMap, MemoryMapError, PhysRange};
use thiserror::Error;

use super::console::say;
use super::dma::{self, DmaError};
use super::domain;

/// The machine's partition is refused; the console has the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the partition is refused")]
pub(crate) struct Refused;

impl Refused {
    fn because(error: impl core::fmt::Display) -> Self {
        say!("partition: {error}");
        Refused
    }
}

/// Why the partition cannot be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum SetupError {
    #[error(transparent)]
    Partition(#[from] PartitionError),
    #[error(transparent)]
    Unfenced(#[from] Unfenced),
    #[error(transparent)]
    Dma(#[from] DmaError),
    #[error(transparent)]
    Domain(#[from] DomainError),
    #[error("domain {0}: {1}")]
    Tree(NodeName, DescriptionError),
    #[error("the stages and reserved ranges of all domains are more than {MAX_TAKEN}")]
    TooManyTaken,
    #[error(
        "neither memory of no domain nor a domain with a device tree has room for the firmware's {0} bytes"
    )]
    NoRoom(u64),
}

/// What the previous boot stage left for the next stages.
#[derive(Debug)]
pub(crate) struct Previous<'a> {
    /// The machine's device tree, if it describes domains.
    pub(crate) domains: Option<Fdt<'a>>,
    pub(crate) information: &'a FwDynamic,
    /// Fills a buffer from an address in memory.
    pub(crate) load: fn(u64, &mut [u8]),
}

/// Maximum number of ranges that the firmware's second range must avoid on a machine with a
/// partition.
const MAX_TAKEN: usize = 64;

type Taken = ArrayVec<PhysRange, MAX_TAKEN>;

/// Whether the tree, if it describes domains, lets this hart boot the machine cold.
///
/// # Errors
///
/// [`Refused`].
pub(crate) fn may_boot(hart: u64, domains: Option<&Fdt<'_>>) -> Result<bool, Refused> {
    // Not inlined: a partition takes 16 KiB of the deep stack.
    #[inline(never)]
    fn in_partition(hart: u64, tree: &Fdt<'_>) -> Result<bool, Refused> {
        let mut partition = Partition::default();
        let is_there = partition.survey(tree).map_err(Refused::because)?;
        Ok(!is_there || partition.may_boot_cold(hart))
    }
    match domains {
        Some(tree) if Partition::restricts_cold_boot(tree).map_err(Refused::because)? => {
            in_partition(hart, tree)
        }
        _ => Ok(true),
    }
}

/// Sets up the domains, if the tree describes a partition. Returns the firmware's second range, of
/// `bytes` and the tables of the IOMMUs after them.
///
/// # Errors
///
/// [`Refused`].
///
/// # Safety
///
/// `machine` describes this machine, no OS runs on it yet, and the previous stage left `previous`.
pub(super) unsafe fn start(
    machine: &Machine,
    previous: &Previous<'_>,
    firmware: PhysRange,
    bytes: u64,
) -> Result<Option<PhysRange>, Refused> {
    let Some(tree) = &previous.domains else {
        return Ok(None);
    };
    // SAFETY: passed on to the caller.
    let data = unsafe { set_up(machine, tree, previous, firmware, bytes) };
    data.map(Some).map_err(Refused::because)
}

/// Sets up the domains of the partition.
///
/// # Safety
///
/// As for [`start`].
// Not inlined: a partition takes 16 KiB of the deep stack.
#[inline(never)]
unsafe fn set_up(
    machine: &Machine,
    tree: &Fdt<'_>,
    previous: &Previous<'_>,
    firmware: PhysRange,
    bytes: u64,
) -> Result<PhysRange, SetupError> {
    let mut partition = Partition::default();
    partition.survey(tree)?;
    let partition = &partition;
    let facts = Facts {
        machine,
        wiring: PciWiring::first(tree),
        firmware: &[firmware],
        closed: &[],
        pmp: None,
        sleep_disks: None,
    };
    check(partition, &facts)?;
    let stages: ArrayVec<LoadedStage, MAX_DOMAINS> = (partition.domains.iter())
        .map(|node| LoadedStage::find(node, previous.information, &machine.memory, previous.load))
        .collect();
    // SAFETY: the previous stage left these trees, and no other code uses them yet.
    let taken = unsafe { taken(machine, partition, &stages, firmware)? };
    let tables = dma::table_bytes(partition, machine);
    let data = second_range(machine, partition, &stages, &taken, bytes + tables)?;
    let holes = machine.foreign(&[]).chain([firmware, data]);
    let holes: ArrayVec<PhysRange, { MAX_RESERVED + 2 }> = holes.collect();
    for (node, stage) in partition.domains.iter().zip(&stages) {
        let memory = memory_of(node, &machine.memory)?;
        let made = Domain::of_node(node, &memory, &holes, stage, &taken)?;
        domain::add(node, made, machine.console);
    }
    let tables = PhysRange::new(data.end - tables, tables);
    // SAFETY: passed on to the caller; the rest of the second range is used later.
    unsafe { dma::start(partition, machine, tables)? };
    Ok(data)
}

/// All memory of the domains.
///
/// # Errors
///
/// [`MemoryMapError`].
pub(super) fn memory() -> Result<MemoryMap, MemoryMapError> {
    let ranges = domain::all().flat_map(|domain| domain.memory.ranges());
    let mut all = ArrayVec::<PhysRange, MAX_RANGES>::new();
    for range in ranges {
        all.try_push(*range)
            .map_err(|_| MemoryMapError::TooManyRanges)?;
    }
    MemoryMap::new(&all, &[])
}

/// Memory that is in use when the next stages start.
///
/// # Safety
///
/// The trees of `stages` are there, and no other code uses them.
unsafe fn taken(
    machine: &Machine,
    partition: &Partition,
    stages: &[LoadedStage],
    firmware: PhysRange,
) -> Result<Taken, SetupError> {
    let mut taken = Taken::new();
    let mut add = |range| taken.try_push(range).map_err(|_| SetupError::TooManyTaken);
    add(firmware)?;
    let reserved = |reserved: &Reserved| reserved.range;
    (machine.reserved.iter().map(reserved)).try_for_each(&mut add)?;
    for (node, stage) in partition.domains.iter().zip(stages) {
        stage.taken().try_for_each(&mut add)?;
        let Some(tree) = stage.tree else { continue };
        let start = core::ptr::with_exposed_provenance(tree.start as usize);
        let bytes = tree.length() - poorwill_domain::TREE_GROWTH;
        // SAFETY: by the caller's contract a tree of this length was found there.
        let blob = unsafe { slice::from_raw_parts(start, bytes as usize) };
        let of_tree = reserved_of(blob).map_err(|error| SetupError::Tree(node.name, error))?;
        (of_tree.iter().map(reserved)).try_for_each(&mut add)?;
    }
    Ok(taken)
}

/// Places the firmware's second range in memory of no domain. If there is not enough, it lies in a
/// domain whose tree can reserve it; the domain that wakes last comes first.
fn second_range(
    machine: &Machine,
    partition: &Partition,
    stages: &[LoadedStage],
    taken: &[PhysRange],
    bytes: u64,
) -> Result<PhysRange, SetupError> {
    let of = |node: &DomainNode| memory_of(node, &machine.memory);
    let mut owned = ArrayVec::<PhysRange, { MAX_DOMAINS * MAX_SPANS }>::new();
    for node in &partition.domains {
        owned.extend(of(node)?);
    }
    if let Ok(free) = MemoryMap::new(&machine.memory, &owned)
        && let Some(found) = place(free.ranges(), taken, bytes)
    {
        return Ok(found);
    }
    let with_trees = partition.domains.iter().zip(stages);
    let with_trees = with_trees.filter(|(_, stage)| stage.tree.is_some());
    for (node, _) in with_trees.rev() {
        if let Some(found) = place(&of(node)?, taken, bytes) {
            return Ok(found);
        }
    }
    Err(SetupError::NoRoom(bytes))
}
