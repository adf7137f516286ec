//! Divides the machine's memory between the firmware and its domains.

use poorwill_devicetree::Machine;
use poorwill_domain::{DivideError, Loaded, memory_of};
use poorwill_memory::{MemoryMap, PAGE_BYTES, PhysRange};

use super::previous::{Described, Previous};
use crate::entry::stack;
use crate::executor::EXECUTOR_BYTES;
use crate::platform::firmware_range;

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
    let loaded = Loaded { firmware, taken };
    let data = loaded.data_range(machine, bytes)?;
    let os = match &previous.domains {
        Described::Lone(lone) => {
            let memory = memory_of(lone.node, &machine.memory)?;
            loaded.os_memory(machine, &memory, data)?
        }
        Described::None | Described::Fenced(_) => {
            loaded.os_memory(machine, &machine.memory, data)?
        }
    };
    Ok(Memory {
        firmware,
        data,
        taken: Some(taken),
        os,
    })
}

/// Number of harts with a stack: the OS's, and a weak one.
pub(super) fn stacks(machine: &Machine) -> usize {
    machine.harts.len() + usize::from(matches!(machine.executor, Some(Ok(_))))
}

/// Bytes of the firmware's second range of memory.
pub(super) fn data_bytes(machine: &Machine, data_pages: impl FnOnce(u64) -> u64) -> u64 {
    let all: u64 = machine.memory.iter().map(PhysRange::length).sum();
    let stacks = stack::pages_needed(stacks(machine)) as u64;
    let translated = match machine.executor {
        Some(Ok(_)) => EXECUTOR_BYTES,
        _ => 0,
    };
    (stacks + data_pages(all / PAGE_BYTES)) * PAGE_BYTES + translated
}
