//! QEMU's own control of a machine (QMP), for what the console cannot do: save
//! the running machine to a file, and restore it.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use qapi::qmp::{
    MigrateSetParameters, MigrationCapability, MigrationCapabilityStatus, MigrationInfo,
    MigrationStatus, chardev_send_break, cont, migrate, migrate_incoming, migrate_set_capabilities,
    migrate_set_parameters, qmp_capabilities, query_migrate, query_status, quit, stop,
};
use qapi::{Command, ExecuteError, Stream};
use tempfile::TempDir;
use thiserror::Error;

use crate::interrupt::{self, Interrupted};

/// How often is looked whether something has come about. QEMU answers in less.
const TICK: Duration = Duration::from_millis(1);

/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// How QEMU writes a machine to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaveKind {
    /// A stream of pages, as to another host.
    Stream,
    /// Each page at a place of its own (`mapped-ram`), holes for zero pages.
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

/// Why QEMU did not do it.
#[derive(Debug, Error)]
pub enum QmpError {
    /// Nobody answers.
    #[error("QEMU's control socket {socket} is not there: {reason}", socket = .socket.display())]
    NoSocket {
        /// Its name.
        socket: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// QEMU refused, or the connection broke.
    #[error("QEMU's `{command}` failed: {reason}")]
    Refused {
        /// The command.
        command: &'static str,
        /// What QEMU says.
        reason: String,
    },
    /// Saving or restoring failed half-way.
    #[error("QEMU could not {what}: {reason}")]
    Failed {
        /// Save or restore.
        what: &'static str,
        /// What QEMU says.
        reason: String,
    },
    /// It did not end.
    #[error("QEMU took longer than {} s to {what}", .limit.as_secs())]
    TimedOut {
        /// Save or restore.
        what: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// Ctrl-C.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

fn refused<C: Command>(error: ExecuteError) -> QmpError {
    QmpError::Refused {
        command: C::NAME,
        reason: match error {
            ExecuteError::Qapi(error) => error.desc,
            ExecuteError::Io(error) => error.to_string(),
        },
    }
}

/// A folder for a control socket, whose name must be short.
///
/// # Errors
///
/// It cannot be made.
pub fn socket_folder() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("poorwill-").tempdir()
}

/// QEMU's argument for a control socket at `socket`.
#[must_use]
pub fn socket_arguments(socket: &Path) -> [OsString; 2] {
    // A comma in a name is doubled.
    let name = socket.to_string_lossy().replace(',', ",,");
    [
        "-qmp".into(),
        format!("unix:{name},server=on,wait=off").into(),
    ]
}

/// The arguments of a machine that waits to be restored.
#[must_use]
pub fn incoming_arguments() -> [OsString; 2] {
    ["-incoming".into(), "defer".into()]
}

/// A connection to a running QEMU.
pub struct Control {
    connection: qapi::Qmp<Stream<BufReader<UnixStream>, UnixStream>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Sends a break over the line of a character device.
    ///
    /// # Errors
    ///
    /// [`QmpError::Refused`], if there is no such device for example.
    pub fn send_break(&mut self, device: &str) -> Result<(), QmpError> {
        self.ask(&chardev_send_break { id: device.into() })
            .map(drop)
    }

    /// Connects as soon as QEMU listens.
    ///
    /// # Errors
    ///
    /// [`QmpError::NoSocket`] if it does not within `limit`.
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
        let reader = stream.try_clone().map_err(no_socket)?;
        let mut control = Control {
            connection: qapi::Qmp::new(Stream::new(BufReader::new(reader), stream)),
        };
        // QEMU greets first; what it says of itself is known already.
        let greeted = control.connection.inner_mut().read_line(&mut String::new());
        if greeted.map_err(no_socket)? == 0 {
            return Err(no_socket(io::ErrorKind::UnexpectedEof.into()));
        }
        control.ask(&qmp_capabilities { enable: None })?;
        Ok(control)
    }

    fn ask<C: Command>(&mut self, command: &C) -> Result<C::Ok, QmpError> {
        self.connection.execute(command).map_err(refused::<C>)
    }

    /// Lets a machine begin that waits to be switched on.
    ///
    /// # Errors
    ///
    /// [`QmpError::Refused`].
    pub fn switch_on(&mut self) -> Result<(), QmpError> {
        self.ask(&cont {}).map(drop)
    }

    /// Stops the machine and writes it to `file`, which is not flushed.
    ///
    /// # Errors
    ///
    /// [`QmpError`].
    pub fn save(&mut self, file: &Path, kind: SaveKind, limit: Duration) -> Result<(), QmpError> {
        self.prepare(kind)?;
        self.ask(&stop {})?;
        self.ask(&migrate {
            uri: Some(uri(file)),
            channels: None,
            detach: None,
            resume: None,
        })?;
        self.wait("save the machine", limit, |control| {
            let info = control.ask(&query_migrate {})?;
            ended("save the machine", &info)
        })
    }

    /// Restores `file` into a machine started with [`incoming_arguments`], until it
    /// runs.
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
        self.ask(&migrate_incoming {
            uri: Some(uri(file)),
            channels: None,
            exit_on_error: Some(false),
        })?;
        let what = "restore the machine";
        self.wait(what, limit, |control| {
            let info = control.ask(&query_migrate {})?;
            ended(what, &info)
        })?;
        // It was stopped when it was saved, and so it is still.
        self.ask(&cont {})?;
        self.wait(what, limit, |control| {
            Ok(control.ask(&query_status {})?.running)
        })
    }

    /// Ends QEMU, which may go without an answer: whether it has gone is for its
    /// parent to see.
    ///
    /// # Errors
    ///
    /// [`QmpError::Refused`].
    pub fn quit(mut self) -> Result<(), QmpError> {
        match self.connection.execute(&quit {}) {
            Ok(_) | Err(ExecuteError::Io(_)) => Ok(()),
            Err(error) => Err(refused::<quit>(error)),
        }
    }

    fn prepare(&mut self, kind: SaveKind) -> Result<(), QmpError> {
        self.ask(&migrate_set_capabilities {
            capabilities: vec![MigrationCapabilityStatus {
                capability: MigrationCapability::mapped_ram,
                state: kind == SaveKind::MappedRam,
            }],
        })?;
        self.ask(&migrate_set_parameters(MigrateSetParameters {
            // 1 TiB/s is no limit: it is the host's own disk.
            max_bandwidth: Some(1 << 40),
            ..MigrateSetParameters::default()
        }))
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

fn ended(what: &'static str, info: &MigrationInfo) -> Result<bool, QmpError> {
    match info.status {
        Some(MigrationStatus::completed) => Ok(true),
        Some(MigrationStatus::failed | MigrationStatus::cancelled) => Err(QmpError::Failed {
            what,
            reason: info
                .error_desc
                .clone()
                .unwrap_or_else(|| "no reason given".into()),
        }),
        _ => Ok(false),
    }
}
