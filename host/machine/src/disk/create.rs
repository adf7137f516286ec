use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use tempfile::NamedTempFile;
use thiserror::Error;

use super::gpt::{self, Use};
use super::in_use::{self, InUse};
use crate::interrupt::{self, Interrupted};
use crate::size::Bytes;

/// Bytes copied between two checks for Ctrl-C.
const CHUNK: u64 = 8 << 20;

/// A raw disk file to create, with a GPT, a root partition and sleep areas. The file is sparse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewDisk {
    /// A file system image for the partition labelled `root`.
    pub root: Option<PathBuf>,
    /// Length of a partition labelled `swap`, not yet formatted; rounded up to MiB.
    pub swap: Option<Bytes>,
    /// Length of each sleep area; rounded up to MiB.
    pub areas: Vec<Bytes>,
}

/// Why a disk was not created. No part of it remains.
#[derive(Debug, Error)]
pub enum DiskError {
    #[error("{} exists: choose another name, or give --force to replace it", .0.display())]
    Exists(PathBuf),
    #[error("{} is not a plain file: partition a real disk with your own tool, with a partition of type {} for the sleep area", .0.display(), poorwill_store::AREA_TYPE)]
    NotAFile(PathBuf),
    #[error(transparent)]
    InUse(#[from] InUse),
    #[error("cannot read the root file system {file}: {reason}", file = .file.display())]
    Root { file: PathBuf, reason: io::Error },
    #[error("no room for {} in its file system: free some space, or choose another folder", .0.display())]
    Full(PathBuf),
    #[error("cannot write {file}: {reason}", file = .file.display())]
    Write { file: PathBuf, reason: io::Error },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl NewDisk {
    /// Creates the disk as `file`, which appears only when complete. `replace` allows it to replace
    /// an existing file.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub fn create(
        &self,
        file: &Path,
        replace: bool,
        progress: &ProgressBar,
    ) -> Result<(), DiskError> {
        check_target(file, replace)?;
        let failed = |reason: io::Error| match reason.kind() {
            io::ErrorKind::AlreadyExists => DiskError::Exists(file.to_owned()),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                DiskError::Full(file.to_owned())
            }
            _ => DiskError::Write {
                file: file.to_owned(),
                reason,
            },
        };
        let root = self.root.as_deref().map(open_root).transpose()?;
        let root_bytes = root.as_ref().map(|(_, bytes)| (Use::Root, *bytes));
        let swap = self.swap.iter().map(|swap| (Use::Swap, swap.0));
        let areas = self.areas.iter().map(|area| (Use::SleepArea, area.0));
        let (partitions, length) = gpt::lay_out(
            &root_bytes
                .into_iter()
                .chain(swap)
                .chain(areas)
                .collect::<Vec<_>>(),
        );

        let temporary = temporary_beside(file, PRIVATE).map_err(failed)?;
        temporary.as_file().set_len(length).map_err(failed)?;
        if let (Some((from, bytes)), Some(to)) = (&root, partitions.first()) {
            progress.set_length(*bytes);
            copy_sparse(from, 0..*bytes, temporary.as_file(), to.start, progress)
                .map_err(failed)?;
            interrupt::check()?;
        }
        gpt::write(temporary.as_file(), &partitions).map_err(failed)?;
        temporary.as_file().sync_data().map_err(failed)?;
        let kept = if replace {
            temporary.persist(file)
        } else {
            temporary.persist_noclobber(file)
        };
        kept.map(drop).map_err(|error| failed(error.into()))
    }
}

fn check_target(file: &Path, replace: bool) -> Result<(), DiskError> {
    match fs::metadata(file) {
        Err(_) => Ok(()),
        Ok(data) if !data.is_file() => Err(DiskError::NotAFile(file.to_owned())),
        Ok(_) if !replace => Err(DiskError::Exists(file.to_owned())),
        Ok(_) => Ok(in_use::check_unused(file)?),
    }
}

fn open_root(file: &Path) -> Result<(File, u64), DiskError> {
    let failed = |reason| DiskError::Root {
        file: file.to_owned(),
        reason,
    };
    let mut root = File::open(file).map_err(failed)?;
    if root.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let bytes = root.seek(SeekFrom::End(0)).map_err(failed)?;
    Ok((root, bytes))
}

/// Permissions for files with a machine's memory or keys: only the owner may read or write them.
pub(crate) const PRIVATE: u32 = 0o600;

/// Creates a temporary file in the folder of `file`, with the permissions `mode`. The caller
/// renames it to `file` when it is complete.
///
/// # Errors
///
/// The system's error.
pub fn temporary_beside(file: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".poorwill-")
        .suffix(".partial")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Copies the data in `range` of `from` to offset `start` of `to`. Skips holes, which stay holes.
/// On Ctrl-C it ends early, without an error.
///
/// # Errors
///
/// The system's error.
pub fn copy_sparse(
    from: &File,
    range: Range<u64>,
    to: &File,
    start: u64,
    progress: &ProgressBar,
) -> io::Result<()> {
    let mut at = range.start;
    while let Some((first, end)) = next_data(from, at)? {
        let end = end.min(range.end);
        at = first;
        while at < end && !interrupt::requested() {
            let count = CHUNK.min(end - at);
            let done = at - range.start;
            copy_range(from, to, at, start + done, count)?;
            at += count;
            progress.set_position(done + count);
        }
        if at >= range.end || interrupt::requested() {
            break;
        }
    }
    Ok(())
}

fn copy_range(
    mut from: &File,
    mut to: &File,
    read_at: u64,
    write_at: u64,
    count: u64,
) -> io::Result<()> {
    from.seek(SeekFrom::Start(read_at))?;
    to.seek(SeekFrom::Start(write_at))?;
    let copied = io::copy(&mut from.by_ref().take(count), &mut to)?;
    if copied == count {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// The next range of data in `file` from `at` on; `None`: no more data.
fn next_data(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    use rustix::fs::{SeekFrom, seek};
    match seek(file, SeekFrom::Data(at)) {
        Ok(first) => Ok(Some((first, seek(file, SeekFrom::Hole(first))?))),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        // This file system does not report holes: all of the file is data.
        Err(rustix::io::Errno::INVAL) => {
            let end = seek(file, SeekFrom::End(0))?;
            Ok((at < end).then_some((at, end)))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    fn sparse_root(folder: &Path) -> PathBuf {
        let path = folder.join("root.ext4");
        let root = File::create(&path).unwrap();
        root.set_len(64 << 20).unwrap();
        root.write_all_at(b"first", 0).unwrap();
        root.write_all_at(b"middle", (20 << 20) + 5).unwrap();
        root.write_all_at(b"last", (64 << 20) - 4).unwrap();
        path
    }

    #[test]
    fn copies_data_and_keeps_holes() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        let new = NewDisk {
            root: Some(sparse_root(folder.path())),
            swap: None,
            areas: vec![Bytes::gib(3)],
        };
        new.create(&disk, false, &ProgressBar::hidden()).unwrap();

        let file = File::open(&disk).unwrap();
        assert_eq!(file.metadata().unwrap().len(), (3 << 30) + (66 << 20));
        assert!(
            file.metadata().unwrap().blocks() * 512 < 4 << 20,
            "not sparse"
        );
        let start = 1 << 20;
        for (text, at) in [
            ("first", 0),
            ("middle", (20 << 20) + 5),
            ("last", (64 << 20) - 4),
        ] {
            let mut found = vec![0; text.len()];
            file.read_exact_at(&mut found, start + at).unwrap();
            assert_eq!(found, text.as_bytes());
        }
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            2,
            "something was left behind"
        );
    }

    #[test]
    fn copies_no_more_than_a_range() {
        let folder = tempfile::tempdir().unwrap();
        let root = File::open(sparse_root(folder.path())).unwrap();
        let copy = File::create_new(folder.path().join("copy")).unwrap();
        copy.set_len(24 << 20).unwrap();
        // The range begins within the first text, and ends within the second.
        let range = 2..(20 << 20) + 8;
        copy_sparse(&root, range, &copy, 1 << 20, &ProgressBar::hidden()).unwrap();
        let copied = fs::read(folder.path().join("copy")).unwrap();
        let texts: Vec<_> = copied
            .chunk_by(|one, next| (*one == 0) == (*next == 0))
            .filter(|run| run[0] != 0)
            .collect();
        assert_eq!(texts, [b"rst", b"mid"]);
        assert_eq!(&copied[1 << 20..][..3], b"rst");
        assert_eq!(&copied[(21 << 20) + 3..][..3], b"mid");
    }

    #[test]
    fn replaces_only_when_told() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::write(&disk, "precious").unwrap();
        let new = NewDisk {
            root: None,
            swap: None,
            areas: vec![Bytes::mib(8)],
        };
        let hidden = ProgressBar::hidden();
        assert!(matches!(
            new.create(&disk, false, &hidden),
            Err(DiskError::Exists(_))
        ));
        assert_eq!(fs::read(&disk).unwrap(), b"precious");
        new.create(&disk, true, &hidden).unwrap();
        assert_eq!(fs::metadata(&disk).unwrap().len(), 10 << 20);
    }

    #[test]
    fn what_cannot_be_made_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = ProgressBar::hidden();
        let no_root = NewDisk {
            root: Some(folder.path().join("absent")),
            swap: None,
            areas: vec![],
        };
        let error = no_root
            .create(&folder.path().join("disk"), false, &hidden)
            .unwrap_err();
        assert!(matches!(error, DiskError::Root { .. }), "{error}");
        let error = NewDisk::default()
            .create(folder.path(), true, &hidden)
            .unwrap_err();
        assert!(matches!(error, DiskError::NotAFile(_)), "{error}");
        // No file may be longer than i64::MAX bytes.
        let huge = NewDisk {
            root: None,
            swap: None,
            areas: vec![Bytes(i64::MAX as u64)],
        };
        let error = huge
            .create(&folder.path().join("disk"), false, &hidden)
            .unwrap_err();
        assert!(
            matches!(error, DiskError::Write { .. } | DiskError::Full(_)),
            "{error}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
