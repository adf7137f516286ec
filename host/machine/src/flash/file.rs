use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use poorwill_vault::VaultError;
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::disk::{InUse, PRIVATE, open_locked, temporary_beside};

/// Length of a flash file, in bytes: QEMU's `virt` board accepts no other.
pub const FLASH_BYTES: u64 = 32 << 20;

/// The word for this file in errors.
const WHAT: &str = "flash";

/// Why a flash file cannot be used or created.
#[derive(Debug, Error)]
pub enum FlashError {
    #[error("{} exists: choose another name, or give it another key with \
             `poorwill key rotate`", .0.display())]
    Exists(PathBuf),
    #[error("{} is not a plain file: create a flash with `poorwill key create FILE`", .0.display())]
    NotAFile(PathBuf),
    #[error("{file} has {bytes} bytes instead of a flash's {FLASH_BYTES}: it is not a flash, or was cut short; create one with `poorwill key create FILE`", file = .file.display())]
    Length { file: PathBuf, bytes: u64 },
    #[error("{file} has {bytes} bytes: a flash has room for {FLASH_BYTES}", file = .file.display())]
    TooLong { file: PathBuf, bytes: u64 },
    #[error(transparent)]
    InUse(#[from] InUse),
    #[error("cannot read flash {file}: {reason}", file = .file.display())]
    Read { file: PathBuf, reason: io::Error },
    #[error("cannot write {file}: {reason}", file = .file.display())]
    Write { file: PathBuf, reason: io::Error },
    #[error("flash {file}: {reason}", file = .file.display())]
    Vault { file: PathBuf, reason: VaultError },
    #[error("the machine of flash {file} sleeps: without its key the image of generation {generation} is lost; wake the machine first, or give --yes", file = .file.display())]
    Armed { file: PathBuf, generation: u64 },
    #[error("flash {} has no key to erase", .0.display())]
    NoKey(PathBuf),
    #[error("the host has no random bytes for a key: {0}")]
    Entropy(io::Error),
}

/// Checks that `file` has the flash's length, is writable, and is not in use.
///
/// # Errors
///
/// [`FlashError`].
pub fn check_unused(file: &Path) -> Result<(), FlashError> {
    // Closing the file here drops the lock.
    open_for_change(file).map(drop)
}

/// Creates a blank flash file. Only its owner may read it, since it will hold a key.
///
/// # Errors
///
/// [`FlashError::Exists`], [`FlashError::Write`]; no new file is left.
pub fn make_blank(file: &Path) -> Result<(), FlashError> {
    make(file, |_| Ok(()))
}

/// Creates a flash file, and fills it by `fill`. It appears only when complete.
pub(super) fn make(
    file: &Path,
    fill: impl FnOnce(File) -> Result<(), FlashError>,
) -> Result<(), FlashError> {
    if fs::symlink_metadata(file).is_ok() {
        return Err(FlashError::Exists(file.to_owned()));
    }
    let failed = |reason: io::Error| match reason.kind() {
        io::ErrorKind::AlreadyExists => FlashError::Exists(file.to_owned()),
        _ => FlashError::Write {
            file: file.to_owned(),
            reason,
        },
    };
    let temporary = write_blank(file).map_err(failed)?;
    fill(temporary.reopen().map_err(failed)?)?;
    let kept = temporary.persist_noclobber(file);
    kept.map(drop).map_err(|error| failed(error.into()))
}

fn write_blank(file: &Path) -> io::Result<NamedTempFile> {
    let chunk = vec![0xff; 1 << 16];
    let mut temporary = temporary_beside(file, PRIVATE)?;
    for _ in 0..FLASH_BYTES / chunk.len() as u64 {
        temporary.write_all(&chunk)?;
    }
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

/// Opens a flash for reading, without a lock: a running machine may use it.
pub(super) fn open_to_look(file: &Path) -> Result<File, FlashError> {
    check_length(file)?;
    File::open(file).map_err(|reason| FlashError::Read {
        file: file.to_owned(),
        reason,
    })
}

/// Opens a flash, and locks it until it is closed.
pub(super) fn open_for_change(file: &Path) -> Result<File, FlashError> {
    check_length(file)?;
    Ok(open_locked(WHAT, file)?)
}

/// Must come before the open: opening a pipe would wait for its other end.
fn check_length(file: &Path) -> Result<(), FlashError> {
    let data = fs::metadata(file).map_err(|reason| FlashError::Read {
        file: file.to_owned(),
        reason,
    })?;
    if !data.is_file() {
        return Err(FlashError::NotAFile(file.to_owned()));
    }
    if data.len() != FLASH_BYTES {
        return Err(FlashError::Length {
            file: file.to_owned(),
            bytes: data.len(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_new_flash_is_blank_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flash");
        make_blank(&file).unwrap();
        let bytes = fs::read(&file).unwrap();
        assert_eq!(bytes.len() as u64, FLASH_BYTES);
        assert!(bytes.iter().all(|byte| *byte == 0xff));
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        check_unused(&file).unwrap();
        assert!(matches!(make_blank(&file), Err(FlashError::Exists(_))));
    }

    #[test]
    fn nothing_is_left_of_a_flash_that_was_not_filled() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flash");
        let failed = make(&file, |_| {
            Err(FlashError::Entropy(io::ErrorKind::Other.into()))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
