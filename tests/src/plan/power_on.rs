//! What happens while a machine is on, from its power-on to its end.

use serde::Deserialize;

use super::{Fault, Guest};
use crate::instant::Instant;

/// One power-on, or several that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerOn {
    /// How it must end.
    pub power_on: End,
    /// So many times.
    #[serde(default = "once")]
    pub times: u32,
    /// How often is `POORWILL_WAKES`, where that is given, instead of `times`.
    #[serde(default)]
    pub soaks: bool,
    /// It must boot cold, for a reason that matches this. Without it, a
    /// machine that sleeps must wake, and any other boots cold with `no image`.
    pub cold_boot: Option<String>,
    /// It must wake, though it did something else in between.
    #[serde(default)]
    pub wake: bool,
    /// It may start in any way, and more than once: what must come is in `expect`.
    #[serde(default)]
    pub any_start: bool,
    /// Lines must match these, in this order.
    #[serde(default)]
    pub expect: Vec<String>,
    /// No line may match any of these.
    #[serde(default)]
    pub forbid: Vec<String>,
    /// Lines that match these are shown beside the trial's name.
    #[serde(default)]
    pub show: Vec<String>,
    /// What the test kernel does instead of what its command line says, by a
    /// way that leaves the device tree as it is.
    pub instead: Option<String>,
    /// What is loaded, and runs if it boots cold, instead of the row's guest.
    pub guest: Option<Guest>,
    /// Instead of the row's words; another guest has none of those anyway.
    pub words: Option<String>,
    /// Another size of memory.
    pub memory: Option<String>,
    /// Another number of harts.
    pub harts: Option<u32>,
    /// Further arguments for QEMU.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Further arguments for the plugin, behind its commas.
    pub plugin: Option<String>,
    /// The power fails within so many nanoseconds of the plugin's time: at a random one.
    pub fails_within: Option<u64>,
    /// The power fails when harts are there.
    pub fails: Option<Instant>,
    /// Behind that it is good for an instant when they are there, and fails again.
    pub fails_again: Option<Instant>,
    /// The caches may lose what was not written back, though it switches itself off.
    #[serde(default)]
    pub loses: bool,
    /// By what caches were written back, among others, before it was switched off.
    pub written_back_by: Option<WrittenBackBy>,
    /// Only its first so many disks are attached.
    pub disks: Option<usize>,
    /// Errors of the last disk.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What is typed when a text appears at the end of the console.
    #[serde(default)]
    pub typed: Vec<Typed>,
    /// What is done when lines have come, in this order.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Milliseconds after which the power is cut at the latest, if it is to be: at a
    /// random moment.
    pub cut_within_ms: Option<u64>,
    /// No line that begins like one of these may come twice in the trial.
    #[serde(default)]
    pub differ: Vec<String>,
    /// A line that begins like this must come twice: what `differ` is to find.
    pub repeats: Option<String>,
    /// A line must match each of these, and the number that they have in brackets is never
    /// less than one before it, be it of an earlier power-on.
    #[serde(default)]
    pub grows: Vec<String>,
    /// The last disk must be, at the end, as it was at the power-on.
    #[serde(default)]
    pub writes_nothing: bool,
}

fn once() -> u32 {
    1
}

impl PowerOn {
    /// A power-on with nothing special about it.
    pub fn ending(power_on: End, times: u32) -> Self {
        Self {
            power_on,
            times,
            soaks: false,
            cold_boot: None,
            wake: false,
            any_start: false,
            expect: Vec::new(),
            forbid: Vec::new(),
            show: Vec::new(),
            instead: None,
            guest: None,
            words: None,
            memory: None,
            harts: None,
            arguments: Vec::new(),
            plugin: None,
            fails_within: None,
            fails: None,
            fails_again: None,
            loses: false,
            written_back_by: None,
            disks: None,
            faults: Vec::new(),
            typed: Vec::new(),
            events: Vec::new(),
            cut_within_ms: None,
            differ: Vec::new(),
            repeats: None,
            grows: Vec::new(),
            writes_nothing: false,
        }
    }
}

/// By what lines of cache reach memory.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenBackBy {
    /// An instruction that names a line.
    Line,
    /// One for all of a hart's cache.
    Whole,
    /// A register of the cache controller.
    Register,
    /// Reading through the cache.
    Reading,
}

/// How a power-on ends.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The firmware saves the machine and powers off.
    Sleep,
    /// The guest reports success (QEMU's exit status 42).
    Success,
    /// Power-off without a sleep, or a reset where that ends QEMU.
    Off,
    /// Its hold-up runs out before the firmware has switched it off (`plugin`).
    PowerLost,
    /// The one or the other: as `Off`, or as `PowerLost`.
    PowerFails,
    /// Its power is cut (`cut_within_ms`), however far it has come.
    Cut,
    /// As `Sleep`, until it ends as `Success`, which must be within `times`: for a
    /// guest that chooses how often it is switched off.
    SleepsThenSuccess,
}

/// A text to wait for, and the answer to type.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// The text, in a line that has not ended.
    pub at: String,
    /// The answer, without the return key.
    pub line: String,
}

/// A line to wait for, and what is done then.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// What the line contains.
    pub after: String,
    /// The line need not have ended.
    #[serde(default)]
    pub in_line: bool,
    /// What is done.
    pub does: Deed,
}

/// What may be done to a machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// This is typed.
    Type(String),
    /// The line breaks.
    Break,
    /// The machine is reset.
    Reset,
    /// Its power fails (`plugin`).
    PowerFails,
    /// Its power is good again (`plugin`).
    PowerGood,
    /// Nothing: the line was to be waited for.
    Nothing,
}
