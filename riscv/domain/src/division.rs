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

#[cfg(test)]
mod tests {
    use poorwill_devicetree::{Holder, Reserved};

    use super::*;

    const MIB: u64 = 1 << 20;
    const MEMORY: PhysRange = PhysRange {
        start: 0x8000_0000,
        end: 0xc000_0000,
    };
    const LOADED: Loaded = Loaded {
        firmware: PhysRange {
            start: 0x8000_0000,
            end: 0x801c_0000,
        },
        taken: [
            PhysRange {
                start: 0x8020_0000,
                end: 0x8220_0000,
            },
            PhysRange {
                start: 0xbfe0_0000,
                end: 0xbfe0_4000,
            },
        ],
    };

    fn machine(reserved: &[PhysRange], holder: Holder) -> Machine {
        let mut machine = Machine::default();
        machine.memory.push(MEMORY);
        let reserved = reserved.iter();
        machine.reserved = reserved
            .map(|range| Reserved {
                range: *range,
                holder,
            })
            .collect();
        machine
    }

    #[test]
    fn the_os_has_all_but_the_firmware_and_foreign_memory() {
        let foreign = PhysRange::new(0x9000_0000, MIB);
        for (holder, is_hole) in [(Holder::Other, true), (Holder::Os, false)] {
            let machine = machine(&[foreign], holder);
            let data = LOADED.data_range(&machine, 1).unwrap();
            assert_eq!(data, PhysRange::new(0xbbe0_0000, 2 * MIB));
            let os = LOADED.os_memory(&machine, &machine.memory, data).unwrap();
            let has = |address| os.ranges().iter().any(|range| range.contains(address));
            assert!(!has(LOADED.firmware.start) && !has(data.start));
            assert!(has(LOADED.firmware.end) && has(data.end));
            assert_eq!(has(foreign.start), !is_hole);
        }
    }

    #[test]
    fn the_second_range_avoids_whatever_is_in_use() {
        // Without the last 64 MiB, which boot loaders take.
        let high = PhysRange::new(0xb000_0000, 0xc00_0000);
        let machine = machine(&[high], Holder::Os);
        let data = LOADED.data_range(&machine, 1).unwrap();
        assert_eq!(data.end, high.start);
    }

    #[test]
    fn it_avoids_wear_levelled_memory_if_possible() {
        let mut machine = machine(&[], Holder::Os);
        let worn = PhysRange::new(0xb000_0000, 0x1000_0000);
        machine.memory_controller.wear_levelled.push(worn);
        assert_eq!(LOADED.data_range(&machine, 1).unwrap().end, worn.start);
        machine.memory_controller.wear_levelled[0] = MEMORY;
        assert!(LOADED.data_range(&machine, 1).is_ok());
    }

    #[test]
    fn without_room_there_is_no_second_range() {
        let machine = machine(&[MEMORY], Holder::Os);
        let found = LOADED.data_range(&machine, 5);
        assert_eq!(found, Err(DivideError::NoRoom(5)));
    }
}
