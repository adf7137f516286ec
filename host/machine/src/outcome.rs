//! How the start of a machine, and a wait for it, can end.

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
    #[error("cannot start {program}: {reason}", program = .program.display())]
    Spawn { program: PathBuf, reason: io::Error },
    #[error(transparent)]
    Ram(#[from] RamError),
    #[error(transparent)]
    Supply(#[from] SupplyError),
    #[error("cannot switch the machine on")]
    Control(#[from] QmpError),
    #[error("cannot write the console log {file}: {reason}", file = .file.display())]
    Log { file: PathBuf, reason: io::Error },
}

/// Why a wait for a machine failed.
#[derive(Debug, Error)]
pub enum WaitError {
    #[error("timed out: no {what} within {} s", .limit.as_secs())]
    TimedOut { what: String, limit: Duration },
    #[error("QEMU ended ({}) before {what}{}{}", .exit.status,
            if .exit.errors.is_empty() { "" } else { ": " }, .exit.errors.trim_end())]
    Ended { what: String, exit: Exit },
    #[error("the console showed a failure before {what}: {line}")]
    Failed { what: String, line: String },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("waiting for QEMU failed")]
    Os(#[from] io::Error),
}

/// How a machine ended.
#[derive(Clone, Debug)]
pub struct Exit {
    /// QEMU's exit status; success after a power-off.
    pub status: ExitStatus,
    /// When it ended, since power-on.
    pub at: Duration,
    /// QEMU's standard error.
    pub errors: String,
    /// QEMU's CPU time since its start; zero if the host does not report it.
    pub cpu_time: Duration,
}

/// QEMU ended for another reason than a power-off.
#[derive(Clone, Debug, Error)]
#[error("QEMU failed ({status}): {errors}")]
pub struct Failed {
    /// QEMU's exit status.
    pub status: ExitStatus,
    /// QEMU's standard error.
    pub errors: String,
}

impl Exit {
    /// Checks that the machine was powered off.
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
