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
