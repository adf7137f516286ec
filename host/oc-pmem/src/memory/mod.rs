//! Memory: what a machine's harts wait for.

pub(crate) mod beside;
pub(crate) mod in_order;
pub(crate) mod light;
pub(crate) mod place;
pub(crate) mod pmem_dimm;
pub(crate) mod randomise;
pub(crate) mod start_gap;
pub(crate) mod watch;

mod faults;
mod group;
mod recent;
mod shared;

use crate::time::Time;
use faults::State;

/// Counts of what a memory did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of harts.
    pub reads: u64,
    /// Writes of harts.
    pub writes: u64,
    /// Sum of the reads' times, from request to answer.
    pub read_time: Time,
    /// Reads that found a write of their devices in progress.
    pub conflicts: u64,
    /// Reads that were rebuilt from parity.
    pub rebuilt: u64,
    /// Reads of harts for which parity gave a dead device's half.
    pub regenerated: u64,
    /// Reads of harts that returned the containment bit: the line is lost.
    pub contained: u64,
    /// When the first of these returned.
    pub first_contained: Option<Time>,
    /// Reads that a row buffer answered.
    pub from_row_buffer: u64,
    /// Writes that a row buffer's waiting page took.
    pub row_hits: u64,
    /// Moves of Start-Gap.
    pub moves: u64,
    /// Operations that programmed devices, parity's included.
    pub programs: u64,
    /// Operations of the flush port.
    pub flushes: u64,
}

impl Counts {
    /// Counts a hart's read from `at` to `done`.
    fn read(&mut self, at: Time, done: Time, state: State) {
        self.reads += 1;
        self.read_time += done - at;
        match state {
            State::Whole => {}
            State::Halved => self.regenerated += 1,
            State::Contained => {
                self.contained += 1;
                self.first_contained.get_or_insert(done);
            }
        }
    }
}

/// A memory. Calls come in the order of time.
pub trait Memory {
    /// Reads a line. The time at which the hart has it.
    fn read(&mut self, at: Time, line: u32) -> Time;

    /// Writes a line. The time at which the hart can go on.
    fn write(&mut self, at: Time, line: u32) -> Time;

    /// The flush port: the time at which all writes are in the devices.
    fn flush(&mut self, at: Time) -> Time;

    /// What it did so far.
    fn counts(&self) -> Counts;
}
