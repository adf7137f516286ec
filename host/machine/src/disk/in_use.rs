use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use thiserror::Error;

/// A process that has a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its name, as the kernel knows it.
    pub name: String,
}

/// A disk or flash that another process uses, or that this user may not use.
#[derive(Debug, Error)]
pub enum InUse {
    /// Another process has it locked, as a running QEMU has.
    #[error("{what} {} is in use{}: end that first", .file.display(), by(.holders))]
    Locked {
        /// What the file is to the machine.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// Who has it open, as far as this user may know.
        holders: Vec<Holder>,
    },
    /// It cannot be opened for reading and writing.
    #[error("cannot open {what} {file}: {reason}", file = .file.display())]
    Unusable {
        /// What the file is to the machine.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: std::io::Error,
    },
}

fn by(holders: &[Holder]) -> String {
    match holders {
        [] => " by another process".to_owned(),
        [one, ..] => format!(" by {} (process {})", one.name, one.pid),
    }
}

/// Checks that `file` can be written and that nobody has it locked. QEMU locks
/// its disks itself; to ask first gives the clearer message.
///
/// # Errors
///
/// [`InUse`].
pub fn check_unused(file: &Path) -> Result<(), InUse> {
    // The lock is gone when the file is closed, here.
    open_locked("disk", file).map(drop)
}

/// Opens `file` for reading and writing, and keeps others from using it until
/// it is closed; `what` names it in errors.
///
/// # Errors
///
/// [`InUse`].
pub(crate) fn open_locked(what: &'static str, file: &Path) -> Result<File, InUse> {
    let opened = File::options().read(true).write(true).open(file);
    let opened = opened.map_err(|reason| InUse::Unusable {
        what,
        file: file.to_owned(),
        reason,
    })?;
    // It conflicts with any lock of another process, QEMU's byte ranges
    // included.
    match fcntl_lock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(opened),
        Err(Errno::ACCESS | Errno::AGAIN) => Err(InUse::Locked {
            what,
            file: file.to_owned(),
            holders: holders(file),
        }),
        // No locks here (some network file systems): nobody can tell.
        Err(_) => Ok(opened),
    }
}

/// The other processes that have `file` open, as far as this user may know.
#[must_use]
pub fn holders(file: &Path) -> Vec<Holder> {
    let Ok(file) = fs::canonicalize(file) else {
        return Vec::new();
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(|&pid: &u32| pid != std::process::id() && has_open(pid, &file))
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Holder {
                pid,
                name: name.trim_end().to_owned(),
            }
        })
        .collect()
}

fn has_open(pid: u32, file: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    descriptors
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|target| target == file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_file_is_free_and_a_missing_one_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        check_unused(file.path()).unwrap();
        let error = check_unused(Path::new("/no/such/disk"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/no/such/disk") && error.contains("No such file"),
            "{error}"
        );
    }
}
