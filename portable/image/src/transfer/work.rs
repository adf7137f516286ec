use core::sync::atomic::AtomicU32;

use poorwill_memory::{OsMemory, OsPage, to_usize};

use super::pieces::{Piece, open};
use crate::format::digest::Digest;
use crate::format::layout::{Batch, PIECE_PAGES};
use crate::format::seal_mark::Salt;
use crate::seal::{Cipher, SealingKey};

/// The cipher's part of a sealed [`load`](crate::load()), for measurements of its share of a load's
/// time.
#[derive(Debug)]
pub struct CipherWork(Cipher);

impl CipherWork {
    /// The work for an image with this key, generation and salt.
    #[must_use]
    pub fn new(key: &SealingKey, generation: u64, salt: Salt) -> Self {
        CipherWork(Cipher::new(key, generation, salt))
    }

    /// Opens piece `number` of page data in place, in up to [`PIECE_PAGES`] of `pages`.
    /// Returns its tag. Several harts may open several pieces at once.
    pub fn open_piece(
        &self,
        number: u64,
        memory: &OsMemory,
        pages: impl Iterator<Item = OsPage>,
    ) -> Digest {
        let pages: Batch = pages.take(to_usize(PIECE_PAGES)).collect();
        let sealed = AtomicU32::new(0);
        let piece = Piece {
            number,
            pages,
            sealed,
        };
        open(&piece, memory, &self.0, |_| true)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use poorwill_memory::Page;
    use poorwill_memory::fake::FakeMemory;

    use super::*;
    use crate::seal::{CipherDirection, Part};

    #[test]
    fn it_opens_what_was_sealed() {
        let (key, salt) = (SealingKey::new([7; 32]), Salt([5; 8]));
        let plain = vec![Page([0x1234_5678; 512]); 300];
        let mut sealed = plain.clone();
        let piece = Part::Piece(2);
        let cipher = Cipher::new(&key, 9, salt);
        let tag = cipher.pages(piece, CipherDirection::Seal, &mut sealed[..256]);
        let mut memory = FakeMemory::new(&[300]);
        for (index, page) in sealed.iter().enumerate() {
            memory.set(index as u64, page);
        }
        let os = memory.os();
        let work = CipherWork::new(&key, 9, salt);
        assert_eq!(work.open_piece(2, os, os.iter().map(|(_, page)| page)), tag);
        assert!(memory.contents() == plain, "a piece is opened, and no more");
    }
}
