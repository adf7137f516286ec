//! The plugin's report at the end, as JSON.

use serde::{Deserialize, Serialize};

/// How the power ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The guest switched it off, or QEMU was told to end: the exit status is QEMU's own.
    PowerOff,
    /// The hold-up ran out: QEMU ended with [`CUT`](crate::CUT).
    HoldUp,
}

/// The cause of a signal.
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

/// The power-fail signal; the last, if there were several.
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
    /// Instructions since the signal.
    pub since_signal: Option<u64>,
    /// Loads from devices' registers since the signal; `None` with `loads=never`.
    pub device_loads: Option<u64>,
    /// Stores to devices' registers since the signal.
    pub device_stores: u64,
    /// Its dirty lines that were lost.
    pub lost: u64,
}

/// The lines of all caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// Dirty and lost.
    pub lost: u64,
    /// Lost lines whose contents memory already had.
    pub unchanged: u64,
    /// Dirty lines that still reached memory (`keep`).
    pub kept: u64,
    /// Dirty lines that a device's later write had written back.
    pub device_written: u64,
    /// Stores to a dirty line that a device had written to since.
    pub device_writes: u64,
    /// Flushes of an address by an instruction.
    pub flushed_by_line: u64,
    /// Flushes of an address by a cache controller's register.
    pub flushed_by_register: u64,
    /// Flushes of all of a hart's lines.
    pub flushed_all: u64,
    /// Lines that others displaced.
    pub displaced: u64,
    /// Physical addresses of the first lost lines.
    pub lost_addresses: Vec<u64>,
}

/// A phase mark: a hart executed `slti x0, x0, number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub hart: usize,
    /// 1 to 2047.
    pub number: u16,
    /// Instructions of that hart so far, the mark included.
    pub instructions: u64,
    /// The hart's own time in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How the power ended.
    pub end: End,
    /// When the power ended, in nanoseconds of the fair time base, if that was on.
    pub time: Option<u64>,
    /// The signal, if there was one.
    pub signal: Option<Signal>,
    /// Whether the line was lowered and raised again (`again-pc`).
    pub rose_again: bool,
    /// By hart number.
    pub harts: Vec<Hart>,
    /// The caches, if there were any.
    pub lines: Option<Lines>,
    /// In order of execution.
    pub marks: Vec<Mark>,
    /// Marks beyond the report's limit.
    pub marks_left_out: u64,
    /// Accesses whose place QEMU does not know: if not 0, the caches are not reliable.
    pub unknown_accesses: u64,
}
