//! What machine mode closes on a machine without fenced domains.

use arrayvec::ArrayVec;
use poorwill_devicetree::Machine;
use poorwill_memory::PhysRange;

use crate::pmp::{
    MAX_PLANNED, PHYSICAL_ADDRESS_BITS, PlanError, Pmp, PmpPlan, TooManyRanges, Wanted,
};

/// The devices of an OS that has the whole machine: all addresses.
pub const ALL_DEVICES: PhysRange = PhysRange {
    start: 0,
    end: 1 << PHYSICAL_ADDRESS_BITS,
};

/// The ranges that are closed to the OS. `own`: machine mode's own memory and flash.
pub fn closed<'a>(
    machine: &'a Machine,
    own: impl Iterator<Item = PhysRange> + Clone + 'a,
) -> impl Iterator<Item = PhysRange> + Clone + 'a {
    let registers = machine.machine_only.iter().chain(&machine.fw_cfg);
    own.chain(registers.copied())
}

/// The ranges of a plan for an OS.
#[derive(Clone, Copy, Debug)]
pub struct Fence<'a> {
    /// A part of the closed ranges that the OS may read.
    pub readable: Option<PhysRange>,
    /// The OS's memory.
    pub memory: &'a [PhysRange],
    /// Addresses of its devices.
    pub devices: &'a [PhysRange],
    /// Registers of its devices, which are not executable.
    pub registers: &'a [PhysRange],
}

impl Fence<'_> {
    /// Makes the plan for harts with this PMP. `closed`: machine mode's own ranges; `wished`: further
    /// ranges to close if there are enough entries. The flag says whether these are closed.
    ///
    /// # Errors
    ///
    /// [`PlanError`]: the PMP cannot protect the closed ranges.
    pub fn plan(
        &self,
        closed: impl Iterator<Item = PhysRange>,
        wished: impl Iterator<Item = PhysRange>,
        pmp: Pmp,
    ) -> Result<(PmpPlan, bool), PlanError> {
        let mut list = ArrayVec::<PhysRange, MAX_PLANNED>::new();
        let mut add = |range| list.try_push(range).map_err(|_| TooManyRanges);
        let mut needed = 0;
        for range in closed {
            add(range)?;
            needed += 1;
        }
        wished.into_iter().try_for_each(add)?;
        let wanted = Wanted {
            readable: self.readable.as_slice(),
            closed: &list,
            memory: self.memory,
            devices: self.devices,
            registers: self.registers,
        };
        PmpPlan::best(&wanted, needed, pmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [PhysRange; 2] = [
        PhysRange {
            start: 0x8000_0000,
            end: 0x801c_0000,
        },
        PhysRange {
            start: 0xbbe0_0000,
            end: 0xbc00_0000,
        },
    ];
    const MEMORY: [PhysRange; 2] = [
        PhysRange {
            start: OWN[0].end,
            end: OWN[1].start,
        },
        PhysRange {
            start: OWN[1].end,
            end: 0xc000_0000,
        },
    ];
    const ENABLES: PhysRange = PhysRange {
        start: 0xc00_2000,
        end: 0xc00_3000,
    };

    fn machine() -> Machine {
        let mut machine = Machine::default();
        machine
            .machine_only
            .push(PhysRange::new(0x200_0000, 0x1_0000));
        machine.fw_cfg.push(PhysRange::new(0x1010_0000, 0x18));
        machine
    }

    fn plan(entries: usize) -> Result<(PmpPlan, bool), PlanError> {
        let fence = Fence {
            readable: None,
            memory: &MEMORY,
            devices: &[ALL_DEVICES],
            registers: &[],
        };
        let pmp = Pmp {
            entries,
            granularity_bits: 2,
        };
        let machine = machine();
        fence.plan(
            closed(&machine, OWN.into_iter()),
            [ENABLES].into_iter(),
            pmp,
        )
    }

    #[test]
    fn memory_and_all_registers_of_machine_mode_are_closed() {
        let machine = machine();
        let all: Vec<_> = closed(&machine, OWN.into_iter()).collect();
        assert_eq!(all[..2], OWN);
        assert_eq!(all[2..], [machine.machine_only[0], machine.fw_cfg[0]]);
    }

    #[test]
    fn wished_ranges_are_closed_if_there_are_entries() {
        let (whole, closes) = plan(16).unwrap();
        assert!(closes);
        let used = whole.entries().len();
        let (least, closes) = plan(used - 1).unwrap();
        assert!(!closes && least.entries().len() < used);
        let few = plan(least.entries().len() - 1);
        assert!(matches!(few, Err(PlanError::Entries { .. })), "{few:?}");
    }

    #[test]
    fn more_ranges_than_a_plan_has_are_an_error() {
        let fence = Fence {
            readable: None,
            memory: &[],
            devices: &[],
            registers: &[],
        };
        let many = (0..=MAX_PLANNED as u64).map(|place| PhysRange::new(place << 13, 1));
        let pmp = Pmp {
            entries: 64,
            granularity_bits: 2,
        };
        let found = fence.plan(many, core::iter::empty(), pmp);
        assert_eq!(found, Err(TooManyRanges.into()));
    }
}
