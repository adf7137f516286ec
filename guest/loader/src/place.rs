use arrayvec::ArrayVec;
use poorwill_devicetree::{MAX_RESERVED, Machine};
use poorwill_memory::{MemoryMap, PhysRange};

use crate::command_line::MAX_COMMAND_LINE;
use crate::error::LoadError;
use crate::items::Item;

/// The most ranges that are not free: the device tree's reservations, the device tree itself, the
/// stack, the kernel and the initramfs.
const MAX_HOLES: usize = MAX_RESERVED + 4;

/// Memory that the loader needs while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The device tree.
    pub tree: PhysRange,
    /// The loader's stack.
    pub stack: PhysRange,
}

/// Bytes by which the device tree may grow. It gets three properties with their names, and one of
/// them holds a command line.
pub const TREE_GROWTH: u64 = MAX_COMMAND_LINE as u64 + 256;

/// The free memory: all memory, and the ranges that are taken from it.
pub(crate) struct Free<'m> {
    machine: &'m Machine,
    holes: ArrayVec<PhysRange, MAX_HOLES>,
    map: MemoryMap,
    /// Whether there is free memory for the device tree's growth.
    pub(crate) has_tree_room: bool,
}

impl<'m> Free<'m> {
    /// All memory except the device tree's reservations and `taken`.
    ///
    /// # Errors
    ///
    /// [`LoadError::Memory`]; [`LoadError::Stack`]: the stack is not in free memory.
    pub(crate) fn new(machine: &'m Machine, taken: &Taken) -> Result<Self, LoadError> {
        let reserved = machine.reserved.iter().map(|reserved| reserved.range);
        let mut holes: ArrayVec<PhysRange, MAX_HOLES> = reserved.collect();
        let map = MemoryMap::new(&machine.memory, &holes)?;
        let Taken { tree, stack } = *taken;
        if !map.contains(stack.start, stack.length()) || stack.overlaps(&tree) {
            return Err(LoadError::Stack(stack.start));
        }
        let has_tree_room = map.contains(tree.end, TREE_GROWTH);
        let grown = PhysRange::new(tree.start, tree.length() + TREE_GROWTH);
        holes.extend([grown, stack]);
        let map = MemoryMap::new(&machine.memory, &holes)?;
        Ok(Free {
            machine,
            holes,
            map,
            has_tree_room,
        })
    }

    pub(crate) fn start_of_memory(&self) -> u64 {
        let starts = self.machine.memory.iter().map(|range| range.start);
        starts.min().unwrap_or(0)
    }

    /// Takes `bytes` at the lowest free multiple of `align` that is at least `least`. `align` must
    /// be a power of two.
    pub(crate) fn place(
        &mut self,
        item: Item,
        bytes: u64,
        align: u64,
        least: u64,
    ) -> Result<PhysRange, LoadError> {
        let fits = |range: &PhysRange| {
            let start = range.start.max(least).checked_next_multiple_of(align)?;
            let end = start.checked_add(bytes)?;
            (end <= range.end).then_some(PhysRange { start, end })
        };
        let place = self.map.ranges().iter().find_map(fits);
        let place = place.ok_or(LoadError::NoRoom(item, bytes))?;
        self.holes.push(place);
        self.map = MemoryMap::new(&self.machine.memory, &self.holes)?;
        Ok(place)
    }
}
