use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use poorwill_vault::VaultError;
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::disk::{InUse, PRIVATE, open_locked, temporary_beside};

/// Bytes of a flash file: QEMU's `virt` board takes no other length.
pub const FLASH_BYTES: u64 = 32 << 20;

/// What the file is to the machine, in errors.
const WHAT: &str = "flash";

/// Why a flash file cannot be used or made.
#[derive(Debug, Error)]
pub enum FlashError {
    /// There is something of that name.
    #[error("{} exists: choose another name, or give it another key with \
             `poorwill key rotate`", .0.display())]
    Exists(PathBuf),
    /// A directory, a pipe, a block device.
    #[error("{} is no plain file: `poorwill key create FILE` makes a flash", .0.display())]
    NotAFile(PathBuf),
    /// Not the length that the board has.
    #[error("{file} has {bytes} bytes, and a flash has {FLASH_BYTES}: it is no flash, or was \
             cut short; `poorwill key create FILE` makes one", file = .file.display())]
    Length {
        /// The file.
        file: PathBuf,
        /// Its bytes.
        bytes: u64,
    },
    /// A program that no flash has room for.
    #[error("{file} has {bytes} bytes, and a flash has room for {FLASH_BYTES}", file = .file.display())]
    TooLong {
        /// The program.
        file: PathBuf,
        /// Its bytes.
        bytes: u64,
    },
    /// Another process uses it, or it cannot be opened.
    #[error(transparent)]
    InUse(#[from] InUse),
    /// It cannot be read.
    #[error("cannot read flash {file}: {reason}", file = .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// It cannot be made.
    #[error("cannot write {file}: {reason}", file = .file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// What is in it is no vault that can be used.
    #[error("flash {file}: {reason}", file = .file.display())]
    Vault {
        /// The file.
        file: PathBuf,
        /// What is the matter.
        reason: VaultError,
    },
    /// A machine sleeps whose image would be lost.
    #[error("the machine of flash {file} sleeps: without its key the image of generation \
             {generation} is lost for good; wake the machine first, or give --yes", file = .file.display())]
    Armed {
        /// The file.
        file: PathBuf,
        /// The image's generation.
        generation: u64,
    },
    /// There is no key to erase.
    #[error("flash {} has no key to erase", .0.display())]
    NoKey(PathBuf),
    /// The host gave no random bytes for a key.
    #[error("the host gives no random bytes for a key: {0}")]
    Entropy(io::Error),
}

/// Checks that `file` is as long as the board's flash, can be written, and is
/// in use by no machine.
///
/// # Errors
///
/// [`FlashError`].
pub fn check_unused(file: &Path) -> Result<(), FlashError> {
    // The lock is gone when the file is closed, here.
    open_for_change(file).map(drop)
}

/// Makes a flash file that nothing was written to. Its owner alone may read it,
/// since it will hold a key.
///
/// # Errors
///
/// [`FlashError::Exists`], [`FlashError::Write`]; there is no new file then.
pub fn make_blank(file: &Path) -> Result<(), FlashError> {
    make(file, |_| Ok(()))
}

/// Makes a flash file that `fill` has written into. It appears under its name
/// when it is whole, or not at all.
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

/// Opens a flash for reading alone; a machine may run on it.
pub(super) fn open_to_look(file: &Path) -> Result<File, FlashError> {
    check_length(file)?;
    File::open(file).map_err(|reason| FlashError::Read {
        file: file.to_owned(),
        reason,
    })
}

/// Opens a flash, and keeps machines from it until it is closed.
pub(super) fn open_for_change(file: &Path) -> Result<File, FlashError> {
    check_length(file)?;
    Ok(open_locked(WHAT, file)?)
}

/// Asked before opening: opening a pipe would wait for its other end.
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
