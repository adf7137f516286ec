//! The machines, which differ in their memory.

use alloc::string::String;

use crate::memory::Counts;
use crate::memory::Memory;
use crate::memory::in_order::{InOrder, Unit};
use crate::memory::light::LightPc;
use crate::memory::pmem_dimm::PmemDimms;
use crate::parameters::Parameters;
use crate::time::Time;

/// A machine of the paper, or one reading of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// LegacyPC: DRAM.
    Dram,
    /// LightPC.
    LightPc,
    /// LightPC-B, whose reads wait for writes of their own group.
    Group,
    /// LightPC-B with an in-order queue for each DIMM.
    Dimm,
    /// LightPC-B with one in-order queue.
    Controller,
    /// A memory of DIMMs as in figure 13a: accesses of 256 bytes.
    Wide,
    /// Section II's DIMM, with buffers inside.
    PmemDimm,
}

impl Machine {
    /// All machines, with the names that users give.
    pub const ALL: [(&'static str, Machine); 7] = [
        ("dram", Machine::Dram),
        ("lightpc", Machine::LightPc),
        ("lightpc-b-group", Machine::Group),
        ("lightpc-b-dimm", Machine::Dimm),
        ("lightpc-b-queue", Machine::Controller),
        ("wide", Machine::Wide),
        ("pmem-dimm", Machine::PmemDimm),
    ];

    /// The machine of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, machine)| *machine)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, known)| *known == self);
        found.map_or("", |(name, _)| name)
    }

    /// All names, for an error.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(|(name, _)| name).to_vec().join(", ")
    }

    pub(crate) fn memory(self, parameters: &Parameters) -> AnyMemory {
        match self {
            Machine::Dram => AnyMemory::InOrder(InOrder::dram(parameters)),
            Machine::LightPc => AnyMemory::LightPc(LightPc::new(parameters)),
            Machine::Group => AnyMemory::InOrder(InOrder::pram(parameters, Unit::Group)),
            Machine::Dimm => AnyMemory::InOrder(InOrder::pram(parameters, Unit::Dimm)),
            Machine::Controller => AnyMemory::InOrder(InOrder::pram(parameters, Unit::Controller)),
            Machine::Wide => AnyMemory::InOrder(InOrder::wide(parameters)),
            Machine::PmemDimm => AnyMemory::PmemDimms(PmemDimms::new(parameters)),
        }
    }
}

/// The memory of any machine.
#[derive(Debug)]
pub(crate) enum AnyMemory {
    InOrder(InOrder),
    LightPc(LightPc),
    PmemDimms(PmemDimms),
}

impl Memory for AnyMemory {
    fn read(&mut self, at: Time, line: u32) -> Time {
        match self {
            AnyMemory::InOrder(memory) => memory.read(at, line),
            AnyMemory::LightPc(memory) => memory.read(at, line),
            AnyMemory::PmemDimms(memory) => memory.read(at, line),
        }
    }

    fn write(&mut self, at: Time, line: u32) -> Time {
        match self {
            AnyMemory::InOrder(memory) => memory.write(at, line),
            AnyMemory::LightPc(memory) => memory.write(at, line),
            AnyMemory::PmemDimms(memory) => memory.write(at, line),
        }
    }

    fn flush(&mut self, at: Time) -> Time {
        match self {
            AnyMemory::InOrder(memory) => memory.flush(at),
            AnyMemory::LightPc(memory) => memory.flush(at),
            AnyMemory::PmemDimms(memory) => memory.flush(at),
        }
    }

    fn counts(&self) -> Counts {
        match self {
            AnyMemory::InOrder(memory) => memory.counts(),
            AnyMemory::LightPc(memory) => memory.counts(),
            AnyMemory::PmemDimms(memory) => memory.counts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn each_machine_has_a_name() {
        let names: Vec<_> = (Machine::ALL.iter().map(|(_, machine)| machine.name())).collect();
        assert_eq!(names.join(", "), Machine::names());
        assert_eq!(Machine::named("lightpc"), Some(Machine::LightPc));
        assert_eq!(Machine::named("LightPC"), None);
    }
}
