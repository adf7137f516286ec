//! QEMU's control protocol (QMP): stops, saves, restores and resets a running machine.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use self::command::{
    Capabilities, Capability, Continue, Incoming, Message, Migrate, Migration, Progress,
    QueryMigrate, QueryStatus, Quit, SendBreak, SetCapabilities, SetParameters, Stop, SystemReset,
};
use qapi_spec::{Command, Execute};
use tempfile::TempDir;
use thiserror::Error;

use crate::interrupt::{self, Interrupted};
use crate::quoted::quoted;

mod command;

/// Interval between two checks of a save's or restore's progress.
const TICK: Duration = Duration::from_millis(1);

/// Time limit for one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The format of a saved machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaveKind {
    /// A stream of pages, as for a migration to another host.
    Stream,
    /// Each page at a fixed offset (`mapped-ram`); zero pages are holes.
    MappedRam,
}

impl fmt::Display for SaveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveKind::Stream => write!(f, "stream"),
            SaveKind::MappedRam => write!(f, "mapped-ram"),
        }
    }
}

/// Why a QMP command failed.
#[derive(Debug, Error)]
pub enum QmpError {
    #[error("QEMU's control socket {socket} is not there: {reason}", socket = .socket.display())]
    NoSocket { socket: PathBuf, reason: io::Error },
    #[error("QEMU's `{command}` failed: {reason}")]
    Refused {
        command: &'static str,
        reason: String,
    },
    #[error("QEMU could not {what}: {reason}")]
    Failed { what: &'static str, reason: String },
    #[error("QEMU took longer than {} s to {what}", .limit.as_secs())]
    TimedOut { what: &'static str, limit: Duration },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Creates a folder with a short name, as the name of a socket in it must be short.
///
/// # Errors
///
/// The folder cannot be made.
pub fn socket_folder() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("poorwill-").tempdir()
}

/// QEMU's arguments for a control socket at `socket`.
#[must_use]
pub fn socket_arguments(socket: &Path) -> [OsString; 2] {
    let name = quoted(socket);
    [
        "-qmp".into(),
        format!("unix:{name},server=on,wait=off").into(),
    ]
}

/// QEMU's arguments for a machine that waits to be restored.
#[must_use]
pub fn incoming_arguments() -> [OsString; 2] {
    ["-incoming".into(), "defer".into()]
}

/// A connection to a running QEMU.
#[derive(Debug)]
pub struct Control {
    answers: BufReader<UnixStream>,
    commands: UnixStream,
}

impl Control {
    /// Sends a break over the line of a character device.
    ///
    /// # Errors
    ///
    /// [`QmpError`].
    pub fn send_break(&mut self, device: &str) -> Result<(), QmpError> {
        self.ask(&SendBreak { id: device }).map(drop)
    }

    /// Connects as soon as QEMU listens.
    ///
    /// # Errors
    ///
    /// [`QmpError::NoSocket`] if it does not listen within `limit`.
    pub fn connect(socket: &Path, limit: Duration) -> Result<Self, QmpError> {
        let until = Instant::now() + limit;
        let no_socket = |reason| QmpError::NoSocket {
            socket: socket.to_owned(),
            reason,
        };
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(reason) if Instant::now() >= until => return Err(no_socket(reason)),
                Err(_) => thread::sleep(TICK),
            }
            interrupt::check()?;
        };
        stream
            .set_read_timeout(Some(ANSWER_LIMIT))
            .map_err(no_socket)?;
        let mut control = Control {
            answers: BufReader::new(stream.try_clone().map_err(no_socket)?),
            commands: stream,
        };
        // The greeting comes first. Nothing in it is needed.
        let greeted = control.answers.read_line(&mut String::new());
        if greeted.map_err(no_socket)? == 0 {
            return Err(no_socket(io::ErrorKind::UnexpectedEof.into()));
        }
        control.ask(&Capabilities {})?;
        Ok(control)
    }

    fn ask<C: Command>(&mut self, command: &C) -> Result<C::Ok, QmpError> {
        let refused = |reason| QmpError::Refused {
            command: C::NAME,
            reason,
        };
        match self.execute(command) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(refused(error.desc)),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Sends a command, and reads lines up to its answer.
    fn execute<C: Command>(&mut self, command: &C) -> io::Result<Result<C::Ok, qapi_spec::Error>> {
        let mut line = serde_json::to_vec(&Execute::<&C>::from(command))?;
        line.push(b'\n');
        self.commands.write_all(&line)?;
        loop {
            line.clear();
            if self.answers.read_until(b'\n', &mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match serde_json::from_slice(&line)? {
                Message::Answer(answer) => return Ok(answer.result()),
                Message::Event { .. } => {}
            }
        }
    }

    /// Resets the machine.
    ///
    /// # Errors
    ///
    /// [`QmpError`].
    pub fn reset(&mut self) -> Result<(), QmpError> {
        self.ask(&SystemReset {}).map(drop)
    }

    /// Starts a machine that QEMU prepared and stopped.
    ///
    /// # Errors
    ///
    /// [`QmpError`].
    pub fn switch_on(&mut self) -> Result<(), QmpError> {
        self.ask(&Continue {}).map(drop)
    }

    /// Stops the machine and saves it to `file`. The file is not flushed.
    ///
    /// # Errors
    ///
    /// [`QmpError`].
    pub fn save(&mut self, file: &Path, kind: SaveKind, limit: Duration) -> Result<(), QmpError> {
        self.prepare(kind)?;
        self.ask(&Stop {})?;
        self.ask(&Migrate { uri: uri(file) })?;
        self.wait("save the machine", limit, |control| {
            let info = control.ask(&QueryMigrate {})?;
            ended("save the machine", &info)
        })
    }

    /// Restores `file` into a machine started with [`incoming_arguments`], and resumes it.
    ///
    /// # Errors
    ///
    /// [`QmpError`].
    pub fn restore(
        &mut self,
        file: &Path,
        kind: SaveKind,
        limit: Duration,
    ) -> Result<(), QmpError> {
        self.prepare(kind)?;
        self.ask(&Incoming {
            uri: uri(file),
            exit_on_error: false,
        })?;
        let what = "restore the machine";
        self.wait(what, limit, |control| {
            let info = control.ask(&QueryMigrate {})?;
            ended(what, &info)
        })?;
        // The saved machine was stopped, and the restored machine is stopped, too.
        self.ask(&Continue {})?;
        self.wait(what, limit, |control| {
            Ok(control.ask(&QueryStatus {})?.running)
        })
    }

    /// Ends QEMU. An answer is not awaited: the caller sees the process end.
    ///
    /// # Errors
    ///
    /// [`QmpError`].
    pub fn quit(mut self) -> Result<(), QmpError> {
        match self.execute(&Quit {}) {
            Ok(Ok(_)) | Err(_) => Ok(()),
            Ok(Err(error)) => Err(QmpError::Refused {
                command: Quit::NAME,
                reason: error.desc,
            }),
        }
    }

    fn prepare(&mut self, kind: SaveKind) -> Result<(), QmpError> {
        self.ask(&SetCapabilities {
            capabilities: [Capability {
                capability: "mapped-ram",
                state: kind == SaveKind::MappedRam,
            }],
        })?;
        // 1 TiB/s, so that QEMU's default limit does not slow the save.
        self.ask(&SetParameters {
            max_bandwidth: 1 << 40,
        })
        .map(drop)
    }

    fn wait(
        &mut self,
        what: &'static str,
        limit: Duration,
        mut done: impl FnMut(&mut Self) -> Result<bool, QmpError>,
    ) -> Result<(), QmpError> {
        let until = Instant::now() + limit;
        while !done(self)? {
            interrupt::check()?;
            if Instant::now() > until {
                return Err(QmpError::TimedOut { what, limit });
            }
            thread::sleep(TICK);
        }
        Ok(())
    }
}

fn uri(file: &Path) -> String {
    format!("file:{}", file.display())
}

fn ended(what: &'static str, migration: &Migration) -> Result<bool, QmpError> {
    match migration.status {
        Some(Progress::Completed) => Ok(true),
        Some(Progress::Failed | Progress::Cancelled) => Err(QmpError::Failed {
            what,
            reason: migration
                .error_desc
                .clone()
                .unwrap_or_else(|| "no reason given".into()),
        }),
        None | Some(Progress::UnderWay) => Ok(false),
    }
}
