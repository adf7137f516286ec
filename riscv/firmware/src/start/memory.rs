//! Divides the machine's memory between the firmware and its domains.

use arrayvec::ArrayVec;
use poorwill_devicetree::{MAX_RESERVED, MAX_WEAR_RANGES, Machine, place};
use poorwill_domain::{DomainError, memory_of};
use poorwill_memory::{MemoryMap, MemoryMapError, PAGE_BYTES, PhysRange};
use thiserror::Error;

use super::previous::{Described, Previous};
use crate::entry::stack;
use crate::platform::firmware_range;

/// Maximum number of ranges that the firmware's second range must avoid: the tree's reserved
/// ranges, the firmware, the next stage and the tree, and if possible wear-levelled memory.
const MAX_TAKEN: usize = MAX_RESERVED + 3 + MAX_WEAR_RANGES;

/// Why the memory cannot be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum DivideError {
    #[error(transparent)]
    Memory(#[from] MemoryMapError),
    #[error("no range of memory has room for the firmware's {0} bytes")]
    NoRoom(u64),
    #[error(transparent)]
    Domain(#[from] DomainError),
}

/// The machine's memory, by owner.
pub(super) struct Memory {
    /// The range that the firmware was loaded into.
    pub(super) firmware: PhysRange,
    /// The firmware's second range.
    pub(super) data: PhysRange,
    /// Memory of the next stage and its tree; `None`: fenced domains have their own.
    pub(super) taken: Option<[PhysRange; 2]>,
    /// Memory of all domains.
    pub(super) os: MemoryMap,
}

/// Divides the memory of a machine without fenced domains. The firmware's second range needs
/// `bytes`.
///
/// # Errors
///
/// [`DivideError`].
pub(super) fn divide(
    machine: &Machine,
    previous: &Previous<'_>,
    bytes: u64,
) -> Result<Memory, DivideError> {
    let firmware = firmware_range();
    let taken = match &previous.domains {
        Described::Lone(lone) => lone.taken(),
        Described::None | Described::Fenced(_) => {
            (previous.information).taken(&machine.memory, previous.load)
        }
    };
    let data = data_range(machine, firmware, taken, bytes)?;
    let own = [firmware, data];
    let os = match &previous.domains {
        Described::Lone(lone) => {
            let memory = memory_of(lone.node, &machine.memory)?;
            os_memory(machine, &memory, own, taken)?
        }
        Described::None | Described::Fenced(_) => os_memory(machine, &machine.memory, own, taken)?,
    };
    Ok(Memory {
        firmware,
        data,
        taken: Some(taken),
        os,
    })
}

/// Bytes of the firmware's second range of memory.
pub(super) fn data_bytes(machine: &Machine, data_pages: impl FnOnce(u64) -> u64) -> u64 {
    let all: u64 = machine.memory.iter().map(PhysRange::length).sum();
    let stacks = stack::pages_needed(machine.harts.len()) as u64;
    (stacks + data_pages(all / PAGE_BYTES)) * PAGE_BYTES
}

/// Places the firmware's second range of memory.
fn data_range(
    machine: &Machine,
    firmware: PhysRange,
    taken: [PhysRange; 2],
    bytes: u64,
) -> Result<PhysRange, DivideError> {
    let reserved = machine.reserved.iter().map(|reserved| reserved.range);
    let mut others: ArrayVec<PhysRange, MAX_TAKEN> = reserved.collect();
    others.push(firmware);
    others.extend(taken);
    let all = others.len();
    // If possible it avoids wear-levelled memory, which cannot be found without the controller's
    // registers.
    others.extend(machine.memory_controller.wear_levelled.iter().copied());
    place(&machine.memory, &others, bytes)
        .or_else(|| place(&machine.memory, &others[..all], bytes))
        .ok_or(DivideError::NoRoom(bytes))
}

/// The OS's part of `memory`: all but the firmware's and foreign memory.
fn os_memory(
    machine: &Machine,
    memory: &[PhysRange],
    firmware: [PhysRange; 2],
    taken: [PhysRange; 2],
) -> Result<MemoryMap, MemoryMapError> {
    let loaded = taken.map(|range| range.start);
    let holes = machine.foreign(&loaded).chain(firmware);
    let holes: ArrayVec<PhysRange, MAX_TAKEN> = holes.collect();
    MemoryMap::new(memory, &holes)
}
