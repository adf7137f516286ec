use core::fmt;

use embedded_storage_async::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashErrorKind, ReadNorFlash,
};

/// Bytes that behave like NOR flash with erase blocks of `BLOCK` bytes: a write clears
/// bits, an erase sets all bits of a block.
pub struct SliceFlash<B, const BLOCK: usize = 0x4_0000>(B);

impl<B: AsRef<[u8]> + AsMut<[u8]>, const BLOCK: usize> SliceFlash<B, BLOCK> {
    /// A flash with the contents `bytes`.
    #[must_use]
    pub fn new(bytes: B) -> Self {
        SliceFlash(bytes)
    }

    /// The contents.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// Returns the contents.
    #[must_use]
    pub fn into_inner(self) -> B {
        self.0
    }

    fn part(&mut self, offset: u32, length: usize) -> Result<&mut [u8], NorFlashErrorKind> {
        let start = offset as usize;
        let end = start
            .checked_add(length)
            .ok_or(NorFlashErrorKind::OutOfBounds)?;
        self.0
            .as_mut()
            .get_mut(start..end)
            .ok_or(NorFlashErrorKind::OutOfBounds)
    }
}

/// Omits the contents, which may include a key.
impl<B: AsRef<[u8]>, const BLOCK: usize> fmt::Debug for SliceFlash<B, BLOCK> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SliceFlash({} bytes)", self.0.as_ref().len())
    }
}

const WORD: usize = 4;

pub(crate) fn check_aligned(
    unit: usize,
    offset: u32,
    length: usize,
) -> Result<(), NorFlashErrorKind> {
    if (offset as usize).is_multiple_of(unit) && length.is_multiple_of(unit) {
        Ok(())
    } else {
        Err(NorFlashErrorKind::NotAligned)
    }
}

impl<B, const BLOCK: usize> ErrorType for SliceFlash<B, BLOCK> {
    type Error = NorFlashErrorKind;
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, const BLOCK: usize> ReadNorFlash for SliceFlash<B, BLOCK> {
    const READ_SIZE: usize = WORD;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        check_aligned(WORD, offset, bytes.len())?;
        bytes.copy_from_slice(self.part(offset, bytes.len())?);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes().len()
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, const BLOCK: usize> NorFlash for SliceFlash<B, BLOCK> {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = BLOCK;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        let length = to.checked_sub(from).ok_or(NorFlashErrorKind::OutOfBounds)? as usize;
        check_aligned(BLOCK, from, length)?;
        self.part(from, length)?.fill(0xff);
        Ok(())
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        check_aligned(WORD, offset, bytes.len())?;
        let part = self.part(offset, bytes.len())?;
        for (old, new) in part.iter_mut().zip(bytes) {
            *old &= new;
        }
        Ok(())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, const BLOCK: usize> MultiwriteNorFlash for SliceFlash<B, BLOCK> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready::ready;

    #[test]
    fn writes_clear_bits_and_erases_set_them() {
        let mut flash = SliceFlash::<_, 8>::new([0xffu8; 16]);
        ready(async {
            flash.write(4, &[0xf0; 4]).await.unwrap();
            flash.write(4, &[0x3c; 4]).await.unwrap();
            let mut word = [0; 4];
            flash.read(4, &mut word).await.unwrap();
            assert_eq!(word, [0x30; 4]);
            flash.write(8, &[0; 8]).await.unwrap();
            flash.erase(0, 8).await.unwrap();
            assert_eq!(flash.bytes()[..8], [0xff; 8]);
            assert_eq!(flash.bytes()[8..], [0; 8]);
        })
        .unwrap();
    }

    #[test]
    fn wrong_accesses_are_refused() {
        let mut flash = SliceFlash::<_, 8>::new([0xffu8; 16]);
        ready(async {
            let mut word = [0; 4];
            assert_eq!(
                flash.read(2, &mut word).await,
                Err(NorFlashErrorKind::NotAligned)
            );
            assert_eq!(
                flash.read(16, &mut word).await,
                Err(NorFlashErrorKind::OutOfBounds)
            );
            assert_eq!(
                flash.write(0, &[0; 3]).await,
                Err(NorFlashErrorKind::NotAligned)
            );
            assert_eq!(
                flash.write(16, &[0; 4]).await,
                Err(NorFlashErrorKind::OutOfBounds)
            );
            assert_eq!(flash.erase(4, 8).await, Err(NorFlashErrorKind::NotAligned));
            assert_eq!(
                flash.erase(8, 24).await,
                Err(NorFlashErrorKind::OutOfBounds)
            );
            assert_eq!(flash.erase(8, 0).await, Err(NorFlashErrorKind::OutOfBounds));
        })
        .unwrap();
        assert_eq!(flash.into_inner(), [0xff; 16]);
    }
}
