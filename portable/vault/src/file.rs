use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use embedded_storage_async::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};

use crate::slice::check_aligned;

/// A file that behaves like NOR flash with erase blocks of `BLOCK` bytes, such as an
/// emulator's flash. Each write is synchronised, so writes reach the disk in order.
#[derive(Debug)]
pub struct FileFlash<const BLOCK: usize = 0x4_0000> {
    file: File,
    capacity: usize,
}

impl<const BLOCK: usize> FileFlash<BLOCK> {
    /// The flash in `file`, opened for reading and writing. No other process may write to
    /// it.
    ///
    /// # Errors
    ///
    /// The file's length is not available.
    pub fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let capacity = usize::try_from(length).map_err(io::Error::other)?;
        Ok(FileFlash { file, capacity })
    }

    fn check(&self, unit: usize, offset: u32, length: usize) -> Result<(), FileFlashError> {
        check_aligned(unit, offset, length).map_err(FileFlashError::Access)?;
        match (offset as usize).checked_add(length) {
            Some(end) if end <= self.capacity => Ok(()),
            _ => Err(FileFlashError::Access(NorFlashErrorKind::OutOfBounds)),
        }
    }

    fn store(&self, offset: u32, bytes: &[u8]) -> Result<(), FileFlashError> {
        self.file.write_all_at(bytes, u64::from(offset))?;
        Ok(self.file.sync_data()?)
    }
}

/// The reason why a [`FileFlash`] failed.
#[derive(Debug, thiserror::Error)]
pub enum FileFlashError {
    /// The access was misaligned or out of bounds.
    #[error("{0}")]
    Access(NorFlashErrorKind),
    /// The file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl NorFlashError for FileFlashError {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            FileFlashError::Access(kind) => *kind,
            FileFlashError::Io(_) => NorFlashErrorKind::Other,
        }
    }
}

const WORD: usize = 4;

impl<const BLOCK: usize> ErrorType for FileFlash<BLOCK> {
    type Error = FileFlashError;
}

impl<const BLOCK: usize> ReadNorFlash for FileFlash<BLOCK> {
    const READ_SIZE: usize = WORD;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.check(WORD, offset, bytes.len())?;
        Ok(self.file.read_exact_at(bytes, u64::from(offset))?)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<const BLOCK: usize> NorFlash for FileFlash<BLOCK> {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = BLOCK;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        let length = to
            .checked_sub(from)
            .ok_or(FileFlashError::Access(NorFlashErrorKind::OutOfBounds))?;
        self.check(BLOCK, from, length as usize)?;
        self.store(from, &std::vec![0xff; length as usize])
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        let mut old = std::vec![0; bytes.len()];
        self.read(offset, &mut old).await?;
        for (old, new) in old.iter_mut().zip(bytes) {
            *old &= new;
        }
        self.store(offset, &old)
    }
}

impl<const BLOCK: usize> MultiwriteNorFlash for FileFlash<BLOCK> {}
