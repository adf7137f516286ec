//! The plugin's report at the end, as JSON.

use serde::{Deserialize, Serialize};

/// How the power ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The guest switched it off, or a user ended QEMU: the exit status is QEMU's own.
    PowerOff,
    /// The hold-up ran out: QEMU ended with [`CUT`](crate::CUT).
    HoldUp,
    /// A trace was complete: QEMU ended with [`TRACED`](crate::TRACED).
    Traced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// `signal-at`.
    Time,
    /// `signal-pc`.
    Instruction,
    /// `signal-store`.
    Store,
    /// The control socket.
    Control,
}

/// The power-fail signal, the last one if there were several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    pub cause: Cause,
    /// Its time in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hart {
    /// Executed instructions.
    pub instructions: u64,
    /// Instructions that it executed after the signal.
    pub since_signal: Option<u64>,
    /// Loads from devices' registers since the signal; `None`: the plugin saw no loads
    /// (`loads=never`).
    pub device_loads: Option<u64>,
    /// Stores to devices' registers since the signal.
    pub device_stores: u64,
    /// Dirty lines of its cache that were lost.
    pub lost: u64,
}

/// Counts of cache lines, for all caches together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// Dirty lines that were lost.
    pub lost: u64,
    /// Lost lines that memory already had with the same contents.
    pub unchanged: u64,
    /// Dirty lines that counted as written back by a device's write.
    pub device_written: u64,
    /// Stores to a dirty line after a device had written to it.
    pub device_writes: u64,
    /// Written back by an instruction with the line's address.
    pub flushed_by_line: u64,
    /// Written back by a store to a cache controller's register.
    pub flushed_by_register: u64,
    /// Written back by a flush of a hart's whole cache.
    pub flushed_all: u64,
    /// Written back because another line needed the place.
    pub displaced: u64,
    /// Physical addresses of the first 1024 lost lines.
    pub lost_addresses: Vec<u64>,
}

/// A phase mark: a hart executed `slti x0, x0, number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub hart: usize,
    /// The mark's number, 1 to 2047.
    pub number: u16,
    /// Instructions of that hart so far, the mark included.
    pub instructions: u64,
    /// The hart's own time in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub end: End,
    /// When the power ended, in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
    /// The signal, if there was one.
    pub signal: Option<Signal>,
    /// Whether the power-fail line was lowered and raised again (`again-pc`).
    pub rose_again: bool,
    /// Indexed by hart number.
    pub harts: Vec<Hart>,
    /// The caches, if there were any.
    pub lines: Option<Lines>,
    /// In the order of execution.
    pub marks: Vec<Mark>,
    /// Marks beyond the report's limit.
    pub marks_left_out: u64,
    /// Accesses whose place QEMU did not know. If there are any, the caches' figures are not
    /// reliable.
    pub unknown_accesses: u64,
}
