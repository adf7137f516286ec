use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use thiserror::Error;

/// A process that has a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// The program's name, from the kernel.
    pub name: String,
}

/// A disk or flash that another process uses, or that this user cannot use.
#[derive(Debug, Error)]
pub enum InUse {
    #[error("{what} {} is in use{}: end that process first", .file.display(), by(.holders))]
    Locked {
        what: &'static str,
        file: PathBuf,
        holders: Vec<Holder>,
    },
    #[error("cannot open {what} {file}: {reason}", file = .file.display())]
    Unusable {
        what: &'static str,
        file: PathBuf,
        reason: std::io::Error,
    },
}

fn by(holders: &[Holder]) -> String {
    match holders {
        [] => " by another process".to_owned(),
        [one, ..] => format!(" by {} (process {})", one.name, one.pid),
    }
}

/// Checks that `file` is writable and not locked. QEMU also locks its disks, but its message does
/// not name the holder.
///
/// # Errors
///
/// [`InUse`].
pub fn check_unused(file: &Path) -> Result<(), InUse> {
    // Closing the file here drops the lock.
    open_locked("disk", file).map(drop)
}

/// Opens `file` for reading and writing, and locks it until it is closed. Errors call it `what`.
pub(crate) fn open_locked(what: &'static str, file: &Path) -> Result<File, InUse> {
    let opened = File::options().read(true).write(true).open(file);
    let opened = opened.map_err(|reason| InUse::Unusable {
        what,
        file: file.to_owned(),
        reason,
    })?;
    // An exclusive `fcntl` lock conflicts with QEMU's locks of byte ranges.
    match fcntl_lock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(opened),
        Err(Errno::ACCESS | Errno::AGAIN) => Err(InUse::Locked {
            what,
            file: file.to_owned(),
            holders: holders(file),
        }),
        // Some network file systems have no locks: no check is possible.
        Err(_) => Ok(opened),
    }
}

/// The other processes that have `file` open. Other users' processes are visible to root only.
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
