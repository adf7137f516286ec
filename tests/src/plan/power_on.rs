//! A power-on of the plan: its settings, its events, and its required end.

use serde::Deserialize;

use super::fault::Fault;
use crate::instant::Instant;

/// A guest.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Guest {
    /// The test kernel (`tests/kernel`).
    Kernel,
    /// Debian with the cycle test as its init.
    Linux,
    /// Debian with the snapshot test as its init.
    LinuxSnapshot,
    /// Debian with an init that works on its disk and its network
    /// (`guest/overlay/usr/local/lib/poorwill/work`).
    LinuxWork,
    /// A Linux without a root file system, which tests itself (`guest/tiny/init`).
    LinuxTiny,
    /// U-Boot.
    UBoot,
    /// The critical guest, with its devices.
    Critical,
    /// None: the firmware has no next stage.
    Nothing,
}

/// A power-on, or several equal ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerOn {
    /// The required end.
    pub power_on: End,
    /// The number of equal power-ons.
    #[serde(default = "once")]
    pub times: u32,
    /// If `POORWILL_WAKES` is set, its quotient by this number replaces `rounds`, or `times` without
    /// rounds.
    pub soaks: Option<u32>,
    /// The machine must boot cold, for a reason that matches this pattern. Unset: a sleeping
    /// machine must wake, and any other must boot cold with `no image`.
    pub cold_boot: Option<String>,
    /// The machine must wake, although another step came after its sleep. With `cold_boot`, a part of
    /// its domains must, and each other one boots cold for that reason.
    #[serde(default)]
    pub wake: bool,
    /// The machine may start in any way, and more than once. `expect` has the required lines.
    #[serde(default)]
    pub any_start: bool,
    /// Patterns of required lines, in this order.
    #[serde(default)]
    pub expect: Vec<String>,
    /// Patterns of forbidden lines.
    #[serde(default)]
    pub forbid: Vec<String>,
    /// Patterns of lines that are shown with the trial's name.
    #[serde(default)]
    pub show: Vec<String>,
    /// The command for the test kernel, in place of its command line. The device tree stays the
    /// same.
    pub instead: Option<String>,
    /// The guest that is loaded, and started by a cold boot, in place of the row's. A machine with
    /// `sockets` has no domains then.
    pub guest: Option<Guest>,
    /// The command line, in place of the row's. Another guest than the row's never gets the row's.
    pub words: Option<String>,
    /// The machine has two domains, on harts 0 and 1. They run a loop.
    #[serde(default)]
    pub domains: bool,
    /// Further source text of the device tree.
    #[serde(default)]
    pub tree: String,
    /// Size of the memory, if it differs from the row's.
    pub memory: Option<String>,
    /// Number of harts, if it differs from the row's.
    pub harts: Option<u32>,
    /// Further arguments for QEMU.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Further arguments for the plugin, separated by commas.
    pub plugin: Option<String>,
    /// The power fails at a random time up to this one, in nanoseconds of the plugin's time.
    pub fails_within: Option<u64>,
    /// The power fails when harts execute this code.
    pub fails: Option<Instant>,
    /// After that, the power-fail line falls and rises again when harts execute this code.
    pub fails_again: Option<Instant>,
    /// The firmware commits a cut if it has armed the line, and has said why not otherwise.
    #[serde(default)]
    pub armed_commits: bool,
    /// The caches may lose lines although the machine switches itself off.
    #[serde(default)]
    pub loses: bool,
    /// One of the means by which lines were written back before the power-off.
    pub written_back_by: Option<WrittenBackBy>,
    /// The number of disks that are attached, from the first one on. Unset: all.
    pub disks: Option<usize>,
    /// Errors of the last disk.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// The last disk answers reads of this many bytes, and then no further one until its controller
    /// is reset.
    pub silent_after: Option<u64>,
    /// Texts to wait for at the console's end, and the answers to type.
    #[serde(default)]
    pub typed: Vec<Typed>,
    /// Lines to wait for, in this order, and the actions at them.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Texts of lines to wait for after the events, in this order.
    #[serde(default)]
    pub lines: Vec<String>,
    /// The firmware refuses the domains for exactly these reasons, in this order. No domain starts.
    #[serde(default)]
    pub refused: Vec<String>,
    /// The number of starts that are refused so.
    #[serde(default = "once")]
    pub starts: usize,
    /// After that, the machine also starts with OpenSBI in place of Poorwill. The same events and
    /// lines must come. Lines with `probe ` must be equal, and at least this number.
    pub opensbi: Option<usize>,
    /// At the end, checks of the critical guest's frames.
    pub frames: Option<Frames>,
    /// The firmware executes at most this many times the instructions until the first OS, of a start
    /// of the same machine with its Linux alone (`frames`, `fair`).
    pub start_ratio: Option<f64>,
    /// Values of four bytes that are written to addresses before the machine is switched on.
    #[serde(default)]
    pub writes: Vec<[u64; 2]>,
    /// The console is received slowly, at 128 bytes a millisecond at the most, and must show this number
    /// of the test kernel's numbered lines, each whole, once and in order.
    pub slow_lines: Option<usize>,
    /// For `runs`: the time after the last line, in ms.
    #[serde(default)]
    pub runs_on_ms: u64,
    /// For a power cut: it comes at a random moment up to this time, in ms.
    pub cut_within_ms: Option<u64>,
    /// Starts of lines that must differ: no such line may come twice in the trial.
    #[serde(default)]
    pub differ: Vec<String>,
    /// Start of a line that must come twice. It proves that `differ` finds repeated lines.
    pub repeats: Option<String>,
    /// Patterns of required lines, with a number in brackets. The number must be at least the one
    /// before, also over several power-ons.
    #[serde(default)]
    pub grows: Vec<String>,
    /// The last disk must have the same contents at the end as at the power-on.
    #[serde(default)]
    pub writes_nothing: bool,
}

fn once<T: From<u8>>() -> T {
    1.into()
}

impl PowerOn {
    /// A power-on with default settings.
    pub fn ending(power_on: End, times: u32) -> Self {
        Self {
            power_on,
            times,
            ..Self::default()
        }
    }
}

/// A means by which cache lines reach memory.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenBackBy {
    /// An instruction with a line's address.
    Line,
    /// An instruction for a hart's whole cache.
    Whole,
    /// A register of the cache controller.
    Register,
    /// Loads that displace lines.
    Reading,
}

/// The end of a power-on.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The firmware saves the machine and powers off.
    Sleep,
    /// The guest reports success (QEMU's exit status 42).
    #[default]
    Success,
    /// Power-off without a sleep, or a reset if that ends QEMU.
    Off,
    /// The hold-up ends before the firmware has switched the power off (`plugin`).
    PowerLost,
    /// As `Off` or as `PowerLost`.
    PowerFails,
    /// The power is cut (`cut_within_ms`), at any stage.
    Cut,
    /// The machine still runs after all events and lines. Then it is switched off.
    Runs,
    /// As `Sleep`, several times, and then as `Success` within `times` power-ons. For a guest that
    /// chooses the number of its sleeps.
    SleepsThenSuccess,
}

/// Checks of the critical guest's frames. None may be lost or repeated. In the fair time base,
/// machine mode may enter the guest's harts for their own domain alone.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Frames {
    /// A start and each wake must begin with 21 frames without data.
    pub stages: bool,
    /// The most that a frame may be late, in ns. None is missing then.
    pub late_ns: Option<u64>,
    /// The most instructions from a wake event to the first frame.
    pub to_frame: Option<u64>,
    /// The most instructions from the power-on to the first frame, of a guest that wakes.
    pub from_power_on: Option<u64>,
    /// The most time from a wake event to a steady rate.
    pub to_steady_ns: Option<u64>,
    /// QEMU traces the writes of frames, too, which must be those of the plugin's log.
    pub traced: bool,
    /// After the first frame nothing writes to the first bus's configuration space (not `fair`).
    pub quiet_bus: bool,
}

/// A text to wait for, with the answer to type.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// The text, in a line without its end.
    pub at: String,
    /// The answer, without the return key.
    pub line: String,
}

/// A line to wait for, with the action at it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// A text that the line contains. Empty: the action comes at once.
    #[serde(default)]
    pub after: String,
    /// Or a pattern of the line.
    pub matches: Option<String>,
    /// The line's end need not have come.
    #[serde(default)]
    pub in_line: bool,
    /// The line may have come before the last event.
    #[serde(default)]
    pub early: bool,
    /// The action.
    #[serde(default)]
    pub does: Deed,
    /// The number of rounds that follow.
    #[serde(default)]
    pub rounds: u32,
    /// The events of a round. `{round}` stands for its number, from 1 on.
    #[serde(default)]
    pub round: Vec<Event>,
}

impl Event {
    /// The event in a round with this number.
    pub(crate) fn in_round(&self, round: u32) -> Self {
        let in_round = |text: &str| text.replace("{round}", &round.to_string());
        let does = match &self.does {
            Deed::Type(text) => Deed::Type(in_round(text)),
            other => other.clone(),
        };
        Event {
            after: in_round(&self.after),
            matches: self.matches.as_deref().map(in_round),
            does,
            ..self.clone()
        }
    }
}

/// An action on a machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// This text is typed.
    Type(String),
    /// A serial break is sent.
    Break,
    /// The machine is reset.
    Reset,
    /// The power fails (`plugin`).
    PowerFails,
    /// The power is good again (`plugin`).
    PowerGood,
    /// These bytes arrive on the critical guest's serial line.
    Trigger(String),
    /// The machine runs for this time.
    RunMs(u64),
    /// The critical guest sends this number of further frames (`fair`).
    Frames(usize),
    /// A part of the run with this name ends.
    Part(String),
    /// A value of four bytes is written to an address.
    Write([u64; 2]),
    /// None: the trial only waits for the line.
    #[default]
    Nothing,
}
