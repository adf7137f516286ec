//! A stock Linux on socket 0, in place of the hostile guest.

use std::fmt;

use anyhow::Context;

use super::critical::{Critical, Seen, Together, Waker};
use crate::Setup;
use crate::plan::{Domain, Linux};

/// A panic asks for a reboot at once, which ends the domain.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 quiet";

/// What Linux does, by the parts of its run.
pub const LINUX: [&str; 5] = [
    "Linux boots",
    "Linux idle",
    "Linux floods",
    "Linux sleeps",
    "Linux panics",
];

/// An end of Linux.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The command that ends it.
    command: &'static str,
    /// The reason that the firmware gives.
    reason: &'static str,
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Linux ends by `{}`", self.command)
    }
}

/// The ends of Linux: a reboot, a shutdown and a panic.
pub const ENDS: [End; 3] = [
    End {
        command: "reboot -f",
        reason: "its OS asks for a reboot",
    },
    End {
        command: "poweroff -f",
        reason: "its OS has shut down",
    },
    End {
        command: "echo c > /proc/sysrq-trigger",
        reason: "its OS asks for a reboot",
    },
];

/// A run beside Linux.
#[derive(Clone, Copy, Debug)]
pub struct BesideLinux {
    /// The least frames of each part after the boot.
    pub frames: usize,
    /// Sleeps of the machine. The critical guest's timer ends them.
    pub sleeps: usize,
    /// Frames after each sleep. A sleep has two lines that Linux causes, and the firmware prints
    /// eight such lines in a second: with more than four sleeps, at least 250 frames.
    pub between: usize,
    /// Milliseconds of a sleep.
    pub sleep_ms: u32,
    /// Microseconds that each heartbeat works.
    pub load_us: u32,
}

impl BesideLinux {
    /// Lets the critical guest run while Linux does each of [`LINUX`].
    ///
    /// # Errors
    ///
    /// A missing file, or one of them stops.
    pub fn run(self, setup: &Setup) -> anyhow::Result<Seen> {
        let mut together = self.power_on(setup)?;
        let parts = [
            Self::boot,
            Self::idle,
            Self::flood,
            Self::sleep,
            Self::panic,
        ];
        for (name, part) in LINUX.iter().zip(parts) {
            part(self, &mut together).context(*name)?;
            together.end_part()?;
        }
        together.finish()
    }

    fn power_on(self, setup: &Setup) -> anyhow::Result<Together> {
        let critical = Critical {
            waker: Waker::Timer(self.sleep_ms),
            load_us: self.load_us,
            is_traced: false,
        };
        let linux = Domain::Linux(Linux {
            words: COMMAND_LINE.into(),
            ..Linux::default()
        });
        Together::start(setup, linux, critical)
    }

    fn boot(self, together: &mut Together) -> anyhow::Result<()> {
        together.has_said("Start it again")
    }

    fn idle(self, together: &mut Together) -> anyhow::Result<()> {
        together.wait_for_frames(self.frames)
    }

    fn flood(self, together: &mut Together) -> anyhow::Result<()> {
        together.type_line("yes \"$(seq -s ' ' 20)\" &")?;
        together.wait_for_frames(self.frames)?;
        together.type_line("kill $!; echo over=$?")?;
        together.wait_for("over=0").map(drop)
    }

    fn sleep(self, together: &mut Together) -> anyhow::Result<()> {
        for number in 0..self.sleeps {
            together.type_line(&format!("echo mem > /sys/power/state; echo awake={number}"))?;
            together.wait_for("park domain=side0")?;
            together.sleep_and_wake("side0")?;
            together.wait_for(&format!("awake={number}"))?;
            together.wait_for_frames(self.between)?;
        }
        Ok(())
    }

    fn panic(self, together: &mut Together) -> anyhow::Result<()> {
        self.end_by(together, ENDS[2])
    }

    /// Lets Linux boot and end. After that the machine sleeps and wakes without it.
    ///
    /// # Errors
    ///
    /// A missing file, or one of them stops.
    pub fn end(self, setup: &Setup, end: End) -> anyhow::Result<Seen> {
        let mut together = self.power_on(setup)?;
        self.boot(&mut together)?;
        self.end_by(&mut together, end)?;
        together.sleep_and_wake("side1")?;
        together.wait_for_frames(self.between)?;
        together.finish()
    }

    fn end_by(self, together: &mut Together, end: End) -> anyhow::Result<()> {
        together.type_line(end.command)?;
        together.wait_for(&format!("domain side0 ends: {}", end.reason))?;
        together.wait_for_frames(self.frames)
    }
}
