use embedded_storage_async::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};
use zeroize::Zeroizing;

use crate::FlashFault;

/// A flash adapter that verifies every write by reading it back, and refuses erases.
///
/// The map in this flash (sequential-storage) erases its oldest page when it is full, and repairs
/// pages by erasing them. A power cut during such an erase can leave any contents: a page marked as
/// used without its items, or one marked as blank with old items. The map's repair would then drop
/// the good copy or restore an old value. So the map must not erase; the vault erases blocks that
/// are no longer needed.
#[derive(Debug)]
pub(crate) struct AppendOnly<'a, F>(pub(crate) &'a mut F);

/// The reason why a flash access ended the map's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The map tried to erase: there is no room left.
    Erase,
    NotKept {
        offset: u32,
    },
    Flash(FlashFault),
}

impl NorFlashError for Stop {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

fn flash_fault(error: impl NorFlashError) -> Stop {
    Stop::Flash(FlashFault::of(&error))
}

impl<F> ErrorType for AppendOnly<'_, F> {
    type Error = Stop;
}

impl<F: ReadNorFlash> ReadNorFlash for AppendOnly<'_, F> {
    const READ_SIZE: usize = F::READ_SIZE;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Stop> {
        self.0.read(offset, bytes).await.map_err(flash_fault)
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

/// Bytes that are read back at a time: a multiple of each flash's word.
const CHUNK: usize = 32;

impl<F: MultiwriteNorFlash> NorFlash for AppendOnly<'_, F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    async fn erase(&mut self, _: u32, _: u32) -> Result<(), Stop> {
        Err(Stop::Erase)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Stop> {
        self.0.write(offset, bytes).await.map_err(flash_fault)?;
        let mut offset = offset;
        for chunk in bytes.chunks(CHUNK) {
            // The bytes may be those of the key, so they are wiped.
            let mut back = Zeroizing::new([0; CHUNK]);
            let back = &mut back[..chunk.len()];
            self.0.read(offset, back).await.map_err(flash_fault)?;
            if back != chunk {
                return Err(Stop::NotKept { offset });
            }
            #[allow(clippy::cast_possible_truncation, reason = "at most CHUNK")]
            let length = chunk.len() as u32;
            offset += length;
        }
        Ok(())
    }
}
