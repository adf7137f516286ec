//! Memory in a file, which outlives the machine's power.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

use crate::disk::{InUse, PRIVATE, holders};
use crate::size::Bytes;

/// The word for this file in errors.
const WHAT: &str = "memory file";

/// Why a file cannot be a machine's memory.
#[derive(Debug, Error)]
pub enum RamError {
    #[error("{} is not a plain file, and cannot be a machine's memory", .0.display())]
    NotAFile(PathBuf),
    #[error("memory file {file} has {bytes} bytes instead of the machine's {wanted}: give --memory that size, or another file", file = .file.display())]
    Length {
        file: PathBuf,
        bytes: u64,
        wanted: u64,
    },
    #[error(transparent)]
    InUse(#[from] InUse),
    #[error("cannot use memory file {file}: {reason}", file = .file.display())]
    Os { file: PathBuf, reason: io::Error },
}

/// The lock of a machine's memory file, held until dropped. QEMU does not lock it.
#[derive(Debug)]
pub(crate) struct RamLock(#[allow(dead_code, reason = "the lock is the open file's")] File);

/// Locks the file. A missing one is created: sparse, for its owner alone.
pub(crate) fn lock(file: &Path, memory: Bytes) -> Result<RamLock, RamError> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let opened = open(file, options)?;
    let failed = |reason| os(file, reason);
    let wanted = memory.in_mib() << 20;
    match opened.metadata().map_err(failed)?.len() {
        0 => opened.set_len(wanted).map_err(failed)?,
        bytes if bytes == wanted => {}
        bytes => {
            return Err(RamError::Length {
                file: file.to_owned(),
                bytes,
                wanted,
            });
        }
    }
    Ok(RamLock(opened))
}

/// Opens and locks the file of a machine that is off.
pub(crate) fn open_to_look(file: &Path) -> Result<File, RamError> {
    open(file, File::options().read(true))
}

/// Opens and locks the file of a machine that is off, for changes.
pub(crate) fn open_to_change(file: &Path) -> Result<File, RamError> {
    open(file, File::options().read(true).write(true))
}

fn open(file: &Path, options: &mut OpenOptions) -> Result<File, RamError> {
    // Must come before the open: opening a device may have effects.
    if fs::metadata(file).is_ok_and(|data| !data.is_file()) {
        return Err(RamError::NotAFile(file.to_owned()));
    }
    let opened = options.mode(PRIVATE).open(file);
    let opened = opened.map_err(|reason| os(file, reason))?;
    take(file, &opened, PATIENCE)?;
    Ok(opened)
}

pub(crate) fn os(file: &Path, reason: io::Error) -> RamError {
    RamError::Os {
        file: file.to_owned(),
        reason,
    }
}

/// How long to wait for a lock. A machine that is ending holds it for a short time. So does a
/// program that this process is starting, which inherits open files.
const PATIENCE: Duration = Duration::from_millis(500);

/// Locks the file for `opened`, and waits up to `patience` for other holders.
fn take(file: &Path, opened: &File, patience: Duration) -> Result<(), RamError> {
    let end = Instant::now() + patience;
    loop {
        match try_take(file, opened) {
            Err(RamError::InUse(_)) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(10));
            }
            taken => return taken,
        }
    }
}

/// Locks the file for `opened`, and checks that no QEMU uses it without a lock.
fn try_take(file: &Path, opened: &File) -> Result<(), RamError> {
    let others = holders(file);
    match flock(opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if others.is_empty() => Ok(()),
        Ok(()) | Err(Errno::WOULDBLOCK) => Err(in_use(file, others).into()),
        Err(error) => Err(os(file, error.into())),
    }
}

fn in_use(file: &Path, mut holders: Vec<crate::disk::Holder>) -> InUse {
    if holders.is_empty() {
        // No other process has the file open, so a machine of this process holds the lock.
        holders.push(crate::disk::Holder {
            pid: process::id(),
            name: "this program".to_owned(),
        });
    }
    InUse::Locked {
        what: WHAT,
        file: file.to_owned(),
        holders,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_missing_file_is_made_sparse_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ram");
        drop(lock(&file, Bytes::mib(64)).unwrap());
        let data = fs::metadata(&file).unwrap();
        assert_eq!((data.len(), data.blocks()), (64 << 20, 0));
        assert_eq!(data.permissions().mode() & 0o777, 0o600);
        // The file's contents are kept.
        fs::write(&file, vec![7; 1 << 20]).unwrap();
        drop(lock(&file, Bytes::mib(1)).unwrap());
        assert_eq!(fs::read(&file).unwrap(), vec![7; 1 << 20]);
    }

    #[test]
    fn another_length_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ram");
        drop(lock(&file, Bytes::mib(2)).unwrap());
        let error = lock(&file, Bytes::mib(4)).unwrap_err();
        assert!(matches!(error, RamError::Length { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("2097152") && text.contains("4194304"),
            "{text}"
        );
        assert_eq!(fs::metadata(&file).unwrap().len(), 2 << 20);
        let error = lock(folder.path(), Bytes::mib(4)).unwrap_err();
        assert!(matches!(error, RamError::NotAFile(_)), "{error}");
        let error = lock(&file.join("below"), Bytes::mib(4)).unwrap_err();
        assert!(matches!(error, RamError::Os { .. }), "{error}");
    }

    #[test]
    fn two_machines_do_not_have_the_same_memory() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ram");
        let first = lock(&file, Bytes::mib(1)).unwrap();
        let error = lock(&file, Bytes::mib(1)).unwrap_err();
        assert!(matches!(error, RamError::InUse(_)), "{error}");
        drop(first);
        lock(&file, Bytes::mib(1)).unwrap();
    }

    #[test]
    fn who_is_about_to_let_go_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ram");
        let first = lock(&file, Bytes::mib(1)).unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(first);
        });
        take(&file, &File::open(&file).unwrap(), Duration::from_secs(300)).unwrap();
        ends.join().unwrap();
    }

    #[test]
    fn a_file_that_another_program_has_open_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ram");
        drop(lock(&file, Bytes::mib(1)).unwrap());
        let input = File::open(&file).unwrap();
        let mut command = process::Command::new("sleep");
        let mut other = command.arg("60").stdin(input).spawn().unwrap();
        drop(command);
        let refused = lock(&file, Bytes::mib(1)).map(drop);
        other.kill().unwrap();
        other.wait().unwrap();
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains(&format!("process {}", other.id())),
            "{error}"
        );
        lock(&file, Bytes::mib(1)).unwrap();
    }
}
