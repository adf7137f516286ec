//! What the plugin tells at the end, as JSON.

use serde::{Deserialize, Serialize};

/// How the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The guest switched it off, or QEMU was told to end: its exit status is its own.
    PowerOff,
    /// The hold-up ran out: QEMU ended with [`CUT`](crate::CUT).
    HoldUp,
    /// The time that was asked for had come: likewise.
    Cut,
}

/// What raised the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its time.
    Time,
    /// An instruction.
    Instruction,
    /// A store to a device.
    Store,
    /// The control socket.
    Control,
}

/// The signal that power fails; the last, if there were several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// What raised the line.
    pub cause: Cause,
    /// When, in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
}

/// One hart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hart {
    /// Instructions executed.
    pub instructions: u64,
    /// Of these, since the signal.
    pub since_signal: Option<u64>,
    /// Loads from devices' registers since the signal; nothing with `loads=never`.
    pub device_loads: Option<u64>,
    /// Stores to devices' registers since the signal.
    pub device_stores: u64,
    /// Its lines that were dirty, not flushed, and lost.
    pub lost: u64,
}

/// All caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// Dirty, not flushed, and lost.
    pub lost: u64,
    /// Of these, lines of which memory held the same.
    pub unchanged: u64,
    /// Dirty, and reached memory all the same (`keep`).
    pub kept: u64,
    /// Dirty, but written back by a device that wrote to them last.
    pub device_written: u64,
    /// Stores that found that a device had written to the dirty line before.
    pub device_writes: u64,
    /// Reached memory by an instruction that flushes their address.
    pub flushed_by_line: u64,
    /// Reached memory by a register of the cache controller that takes their address.
    pub flushed_by_register: u64,
    /// Reached memory by a flush of all of a hart's lines.
    pub flushed_all: u64,
    /// Reached memory because others needed their place.
    pub displaced: u64,
    /// Physical addresses of lost lines, the first few.
    pub lost_addresses: Vec<u64>,
}

/// A phase mark: a hart executed `slti x0, x0, number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The hart.
    pub hart: usize,
    /// 1 to 2047.
    pub number: u16,
    /// What that hart had executed, the mark included.
    pub instructions: u64,
    /// The hart's own time in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
}

/// All that is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How the power went.
    pub end: End,
    /// When, in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
    /// The signal, if there was one.
    pub signal: Option<Signal>,
    /// Whether it fell and rose again (`again-pc`).
    pub rose_again: bool,
    /// By number.
    pub harts: Vec<Hart>,
    /// The caches, if there were any.
    pub lines: Option<Lines>,
    /// In the order in which they were reached.
    pub marks: Vec<Mark>,
    /// Marks for which there was no room.
    pub marks_left_out: u64,
    /// Accesses whose place QEMU did not tell: 0, or the caches are not to be trusted.
    pub unknown_accesses: u64,
}
