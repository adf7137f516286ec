use arrayvec::ArrayVec;
use poorwill_devicetree::{MAX_RESERVED, MAX_WEAR_RANGES, Machine, place};
use poorwill_memory::{MemoryMap, MemoryMapError, PhysRange};
use thiserror::Error;

use crate::partition::DomainError;

/// Maximum number of ranges that the firmware's second range must avoid: the tree's reserved
/// ranges, the firmware, the next stage and the tree, and if possible wear-levelled memory.
const MAX_TAKEN: usize = MAX_RESERVED + 3 + MAX_WEAR_RANGES;

/// Why the memory cannot be divided.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DivideError {
    #[error(transparent)]
    Memory(#[from] MemoryMapError),
    #[error("no range of memory has room for the firmware's {0} bytes")]
    NoRoom(u64),
    #[error(transparent)]
    Domain(#[from] DomainError),
}

/// Memory of a machine without fenced domains that is in use before the firmware divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The range that the firmware was loaded into.
    pub firmware: PhysRange,
    /// The next stage, and its device tree with room to grow.
    pub taken: [PhysRange; 2],
}

impl Loaded {
    /// Places the firmware's second range of memory, which needs `bytes`.
    ///
    /// # Errors
    ///
    /// [`DivideError::NoRoom`].
    pub fn data_range(&self, machine: &Machine, bytes: u64) -> Result<PhysRange, DivideError> {
        let reserved = machine.reserved.iter().map(|reserved| reserved.range);
        let mut others: ArrayVec<PhysRange, MAX_TAKEN> = reserved.collect();
        others.push(self.firmware);
        others.extend(self.taken);
        let all = others.len();
        // If possible it avoids wear-levelled memory, which cannot be found without the controller's
        // registers.
        others.extend(machine.memory_controller.wear_levelled.iter().copied());
        place(&machine.memory, &others, bytes)
            .or_else(|| place(&machine.memory, &others[..all], bytes))
            .ok_or(DivideError::NoRoom(bytes))
    }

    /// The OS's part of `memory`: all but the firmware's and foreign memory. `data`: the firmware's
    /// second range.
    ///
    /// # Errors
    ///
    /// [`MemoryMapError`].
    pub fn os_memory(
        &self,
        machine: &Machine,
        memory: &[PhysRange],
        data: PhysRange,
    ) -> Result<MemoryMap, MemoryMapError> {
        let loaded = self.taken.map(|range| range.start);
        let holes = (machine.foreign(&loaded)).chain([self.firmware, data]);
        let holes: ArrayVec<PhysRange, MAX_TAKEN> = holes.collect();
        MemoryMap::new(memory, &holes)
    }
}
