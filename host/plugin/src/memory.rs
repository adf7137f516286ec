//! The file that backs the machine's RAM.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::cache::{LINE_BYTES, Line, Visible};

/// Physical address of the `virt` board's RAM.
pub(crate) const RAM_BASE: u64 = 0x8000_0000;

/// Words in a line.
const WORDS: usize = LINE_BYTES / size_of::<u64>();

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub(crate) enum RamError {
    #[error("the RAM's file {file} cannot be used: {reason}", file = .file.display())]
    File { file: PathBuf, reason: io::Error },
    #[error(
        "the RAM's file {file} has {bytes} bytes: its length must be a multiple of 64, up to 256 GiB",
        file = .file.display()
    )]
    Size { file: PathBuf, bytes: u64 },
}

/// The mapped file. Harts and devices write to it at any time.
#[derive(Debug)]
pub(crate) struct Ram {
    name: PathBuf,
    file: File,
    words: NonNull<AtomicU64>,
    lines: u32,
}

// SAFETY: the mapping lives until the process ends, and all accesses are atomic.
unsafe impl Send for Ram {}

impl Ram {
    /// Maps the file, which QEMU maps too.
    pub(crate) fn map(name: &Path) -> Result<Self, RamError> {
        let failed = |reason| RamError::File {
            file: name.to_owned(),
            reason,
        };
        let opened = File::options().read(true).write(true).open(name);
        let file = opened.map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let wrong = || RamError::Size {
            file: name.to_owned(),
            bytes,
        };
        if bytes == 0 || !bytes.is_multiple_of(LINE_BYTES as u64) {
            return Err(wrong());
        }
        let lines = u32::try_from(bytes / LINE_BYTES as u64).map_err(|_| wrong())?;
        let length = usize::try_from(bytes).map_err(|_| wrong())?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, of the file's length.
        let mapped = unsafe {
            let (anywhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
            libc::mmap(anywhere, length, protection, libc::MAP_SHARED, fd, 0)
        };
        let words = NonNull::new(mapped).filter(|_| mapped != libc::MAP_FAILED);
        let words = words.ok_or_else(|| failed(io::Error::last_os_error()))?;
        Ok(Ram {
            name: name.to_owned(),
            file,
            words: words.cast(),
            lines,
        })
    }

    fn line(&self, number: u32) -> &[AtomicU64] {
        assert!(number < self.lines, "a line of the RAM");
        // SAFETY: the line is within the mapping, which is never removed.
        unsafe {
            let first = self.words.add(number as usize * WORDS);
            std::slice::from_raw_parts(first.as_ptr(), WORDS)
        }
    }

    /// The lines outside of the file's holes; all others are zeros.
    pub(crate) fn written(&self) -> Result<Vec<Range<u32>>, RamError> {
        let mut ranges = Vec::new();
        let mut at = 0_u64;
        while let Some(start) = self.seek(at, libc::SEEK_DATA)? {
            // The file system reports a hole at the end of each file.
            let end = self.seek(start, libc::SEEK_HOLE)?.unwrap_or(start);
            let lines = [start / LINE_BYTES as u64, end.div_ceil(LINE_BYTES as u64)];
            let [first, behind] = lines.map(|line| u32::try_from(line).unwrap_or(self.lines));
            ranges.push(first..behind.min(self.lines));
            at = end;
        }
        Ok(ranges)
    }

    fn seek(&self, from: u64, what: i32) -> Result<Option<u64>, RamError> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        // SAFETY: it moves only the file's position, which has no other user.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from, what) };
        if let Ok(found) = u64::try_from(found) {
            return Ok(Some(found));
        }
        let reason = io::Error::last_os_error();
        if reason.raw_os_error() == Some(libc::ENXIO) {
            return Ok(None);
        }
        Err(RamError::File {
            file: self.name.clone(),
            reason,
        })
    }
}

impl Visible for Ram {
    fn lines(&self) -> usize {
        self.lines as usize
    }

    fn read(&self, number: u32) -> Line {
        let mut line = [0; LINE_BYTES];
        for (bytes, word) in line.chunks_exact_mut(8).zip(self.line(number)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        line
    }

    fn write(&self, number: u32, line: &Line) {
        for (bytes, word) in line.chunks_exact(8).zip(self.line(number)) {
            let mut value = [0; 8];
            value.copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_what_is_seen() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1 << 20).expect("a size");
        let ram = Ram::map(file.path()).expect("it is mapped");
        assert_eq!(ram.lines(), 1 << 14);
        ram.write(5, &[7; LINE_BYTES]);
        assert_eq!(ram.read(5), [7; LINE_BYTES]);
        assert_eq!(ram.read(6), [0; LINE_BYTES]);
        let bytes = std::fs::read(file.path()).expect("it is read");
        assert_eq!((bytes[319], bytes[320], bytes[383]), (0, 7, 7));
        let written = ram.written().expect("it is told");
        assert!(written.iter().any(|lines| lines.contains(&5)));
    }

    #[test]
    fn a_file_that_cannot_be_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let refused = Ram::map(file.path()).expect_err("empty");
        assert!(refused.to_string().contains("has 0 bytes"));
        let refused = Ram::map(Path::new("/nowhere/ram")).expect_err("missing");
        assert!(refused.to_string().contains("/nowhere/ram"));
    }
}
