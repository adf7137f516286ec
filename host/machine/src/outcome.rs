//! How switching a machine on, and waiting for it, can end.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

use crate::interrupt::Interrupted;
use crate::qmp::QmpError;
use crate::ram::RamError;
use crate::supplied::SupplyError;

/// Why a machine did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// QEMU could not be executed.
    #[error("cannot start {program}: {reason}", program = .program.display())]
    Spawn {
        /// What was executed.
        program: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// The file that is to be its memory cannot be.
    #[error(transparent)]
    Ram(#[from] RamError),
    /// It cannot have its power supply.
    #[error(transparent)]
    Supply(#[from] SupplyError),
    /// QEMU runs, but does not switch the machine on.
    #[error("cannot switch the machine on")]
    Control(#[from] QmpError),
    /// The log could not be opened.
    #[error("cannot write the console log {file}: {reason}", file = .file.display())]
    Log {
        /// The log.
        file: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
}

/// Why a wait for a machine ended without what was waited for.
#[derive(Debug, Error)]
pub enum WaitError {
    /// It did not come in time.
    #[error("{what} did not come within {} s", .limit.as_secs())]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },
    /// QEMU ended before.
    #[error("QEMU ended ({}) before {what}{}{}", .exit.status,
            if .exit.errors.is_empty() { "" } else { ": " }, .exit.errors.trim_end())]
    Ended {
        /// What was waited for.
        what: String,
        /// How QEMU ended.
        exit: Exit,
    },
    /// A line that means failure came before (see [`RunningMachine::fail_on`]).
    #[error("before {what} the console said: {line}")]
    Failed {
        /// What was waited for.
        what: String,
        /// The line that means failure.
        line: String,
    },
    /// Ctrl-C.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The operating system failed.
    #[error("waiting for QEMU failed")]
    Os(#[from] io::Error),
}

/// How a machine ended.
#[derive(Clone, Debug)]
pub struct Exit {
    /// QEMU's exit status; success after a power-off.
    pub status: ExitStatus,
    /// When, counted from power-on.
    pub at: Duration,
    /// What QEMU wrote to its standard error.
    pub errors: String,
    /// The CPU time that QEMU used from its start on; zero where the host does not tell.
    pub cpu_time: Duration,
}

/// The emulator's end, where it was no power-off.
#[derive(Clone, Debug, Error)]
#[error("QEMU failed ({status}): {errors}")]
pub struct Failed {
    /// QEMU's exit status.
    pub status: ExitStatus,
    /// What it wrote to its standard error.
    pub errors: String,
}

impl Exit {
    /// Whether the machine was powered off.
    ///
    /// # Errors
    ///
    /// [`Failed`].
    pub fn check(&self) -> Result<(), Failed> {
        if self.status.success() {
            return Ok(());
        }
        Err(Failed {
            status: self.status,
            errors: self.errors.trim_end().to_owned(),
        })
    }
}
