//! DRAM as main memory, and OC-PMEM beside it: where the paper's comparators save what they keep.

use super::in_order::InOrder;
use super::light::LightPc;
use super::{Counts, Memory};
use crate::parameters::Parameters;
use crate::time::Time;

/// The first line of OC-PMEM. DRAM has the lines below.
pub(crate) const PERSISTENT: u32 = 1 << 31;

/// LegacyPC with LightPC's memory beside its own.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    dram: InOrder,
    persistent: LightPc,
}

impl Beside {
    /// Both memories with these parameters.
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Beside {
            dram: InOrder::dram(parameters),
            persistent: LightPc::new(parameters),
        }
    }
}

impl Memory for Beside {
    fn read(&mut self, at: Time, line: u32) -> Time {
        match line.checked_sub(PERSISTENT) {
            Some(line) => self.persistent.read(at, line),
            None => self.dram.read(at, line),
        }
    }

    fn write(&mut self, at: Time, line: u32) -> Time {
        match line.checked_sub(PERSISTENT) {
            Some(line) => self.persistent.write(at, line),
            None => self.dram.write(at, line),
        }
    }

    /// The flush port is OC-PMEM's. DRAM has none.
    fn flush(&mut self, at: Time) -> Time {
        self.persistent.flush(at)
    }

    /// What OC-PMEM did.
    fn counts(&self) -> Counts {
        self.persistent.counts()
    }
}
