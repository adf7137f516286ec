use crate::error::LoadError;
use crate::items::{Item, Items};

/// The kernel's file, which may be cut short.
pub(crate) struct KernelFile<'i, I> {
    items: &'i mut I,
    length: u32,
}

impl<'i, I: Items> KernelFile<'i, I> {
    /// Opens the kernel in `items`.
    pub(crate) fn open(items: &'i mut I) -> Result<Self, LoadError> {
        let length = items.length(Item::Kernel)?;
        if length == 0 {
            return Err(LoadError::NoKernel);
        }
        Ok(KernelFile { items, length })
    }

    /// Length in bytes.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Offset and length of a part. An error if the file does not have all of it.
    pub(crate) fn part(&self, offset: u64, bytes: u64) -> Result<(u32, u32), LoadError> {
        let truncated = LoadError::Truncated(Item::Kernel, self.length);
        let end = offset.checked_add(bytes);
        end.filter(|end| *end <= self.length.into())
            .ok_or(truncated)?;
        let narrow = |value| u32::try_from(value).map_err(|_| truncated);
        Ok((narrow(offset)?, narrow(bytes)?))
    }

    /// Fills `into` with the bytes at `offset`. `None`: the offset overflowed, and is past the
    /// end.
    pub(crate) fn read(&mut self, offset: Option<u64>, into: &mut [u8]) -> Result<(), LoadError> {
        let (offset, _) = self.part(offset.unwrap_or(u64::MAX), into.len() as u64)?;
        Ok(self.items.read(Item::Kernel, offset, into)?)
    }
}
