use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::{OsMemory, PAGE_BYTES, PageWalk, to_usize};
use thiserror::Error;

use crate::Progress;
use crate::checksum::Hasher;
use crate::layout::{self, Batch, PIECE_PAGES};
use crate::open::{Checked, Opened};

/// The proof that all of memory is as it was when the machine went to sleep.
#[derive(Debug, PartialEq, Eq)]
pub struct Loaded {
    pub(crate) loaded_pages: u64,
}

impl Loaded {
    /// Pages read from the medium.
    #[must_use]
    pub fn loaded_pages(&self) -> u64 {
        self.loaded_pages
    }
}

/// Why memory could not be restored. It is then neither the old machine's nor a
/// new one's: only a cold boot helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// Page data does not fit its digest.
    #[error("piece {piece} of the image's page data is damaged")]
    DamagedPiece {
        /// Number of the piece, from 0.
        piece: u64,
    },
    /// The memory given is not the one that the image was opened for.
    #[error("the image is for {image_pages} pages of memory, there are {memory_pages}")]
    OtherMemory {
        /// Pages of OS memory that the image is for.
        image_pages: u64,
        /// Pages of OS memory given.
        memory_pages: u64,
    },
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// Fills all of memory: saved pages from `slot`, every piece verified, the
/// others with zeros.
///
/// # Errors
///
/// See [`LoadError`]. The medium touches memory no more then.
pub fn load<M: Medium>(
    slot: &mut M,
    opened: &Opened<'_>,
    memory: &mut OsMemory,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, LoadError> {
    let (image_pages, memory_pages) = (opened.header.os_pages, memory.pages());
    if image_pages != memory_pages {
        return Err(LoadError::OtherMemory {
            image_pages,
            memory_pages,
        });
    }
    let mut loader = Loader::new(slot, opened);
    let result = loader.run(memory, progress);
    if result.is_err() {
        slot.quiesce();
    }
    result
}

/// Pieces that may be read ahead of the one that is verified next: enough to
/// keep a device busy while a hart hashes.
const AHEAD: u64 = 16;

/// Pages zeroed between two looks at the medium.
const ZERO_PAGES: usize = 32;

/// The tag of every transfer of a piece: its entry among the pieces ahead.
fn tag_of(piece: u64) -> u32 {
    (piece % AHEAD) as u32
}

fn entry_of(piece: u64) -> usize {
    tag_of(piece) as usize
}

/// A piece on its way.
#[derive(Clone)]
struct Piece<'m> {
    /// Its pages, none taken.
    pages: PageWalk<'m>,
    /// Transfers started and not finished.
    transfers: u32,
}

/// Keeps the medium busy with reads, verifies pieces in order as they are
/// complete, and zeroes pages when there is nothing to verify.
struct Loader<'l, M> {
    slot: &'l mut M,
    image: &'l Checked<'l>,
    batch: Batch,
    batch_pages: u64,
    /// The pages not yet asked for.
    wanted: PageWalk<'l>,
    /// The pages to be zeroed yet.
    zeros: PageWalk<'l>,
    /// Saved pages asked for.
    asked: u64,
    in_flight: usize,
    /// Pieces verified; the ones behind are on their way, piece `n` in entry
    /// `n % AHEAD`.
    verified: u64,
    pieces: [Piece<'l>; to_usize(AHEAD)],
}

impl<'l, M: Medium> Loader<'l, M> {
    fn new(slot: &'l mut M, image: &'l Checked<'l>) -> Self {
        let batch_pages = (slot.max_pages() as u64).clamp(1, PIECE_PAGES);
        let wanted = PageWalk::new(image.map.members());
        let pieces = core::array::from_fn(|_| Piece {
            pages: wanted.clone(),
            transfers: 0,
        });
        Loader {
            slot,
            image,
            batch: Batch::new(),
            batch_pages,
            wanted,
            zeros: PageWalk::new(image.map.others()),
            asked: 0,
            in_flight: 0,
            verified: 0,
            pieces,
        }
    }

    fn run(
        &mut self,
        memory: &mut OsMemory,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Loaded, LoadError> {
        let total_pages = self.image.header.saved_pages;
        let mut zeroed = false;
        while self.verified < layout::pieces(total_pages) || !zeroed {
            self.reap()?;
            while self.ask(memory)? {}
            if self.is_next_complete() {
                self.verify_next(memory)?;
                let done_pages = (self.verified * PIECE_PAGES).min(total_pages);
                progress(Progress {
                    done_pages,
                    total_pages,
                    moved_bytes: done_pages * PAGE_BYTES,
                });
            } else if !zeroed {
                zeroed = self.zero_some(memory);
            } else {
                core::hint::spin_loop();
            }
        }
        Ok(Loaded {
            loaded_pages: total_pages,
        })
    }

    /// Takes note of the transfers that have finished.
    fn reap(&mut self) -> Result<(), MediumError> {
        while self.in_flight > 0 {
            let Some(tag) = self.slot.poll()? else {
                return Ok(());
            };
            let piece = self
                .pieces
                .get_mut(tag as usize)
                .filter(|piece| piece.transfers > 0);
            piece.ok_or(MediumError::Protocol)?.transfers -= 1;
            self.in_flight -= 1;
        }
        Ok(())
    }

    /// Starts the next transfer; whether there was one, and room for it.
    fn ask(&mut self, memory: &OsMemory) -> Result<bool, MediumError> {
        let number = self.asked / PIECE_PAGES;
        let begun = self.asked % PIECE_PAGES;
        let left = self.image.header.saved_pages - self.asked;
        let busy = self.in_flight >= self.slot.depth();
        if left == 0 || busy || number >= self.verified + AHEAD {
            return Ok(false);
        }
        if begun == 0 {
            self.pieces[entry_of(number)].pages = self.wanted.clone();
        }
        let pages = self.batch_pages.min(PIECE_PAGES - begun).min(left);
        self.batch.clear();
        self.batch
            .extend(core::iter::from_fn(|| self.wanted.next(memory)).take(to_usize(pages)));
        let first_page = self.image.header.data.first_page + self.asked;
        self.slot.start(
            Direction::Read,
            first_page * PAGE_BYTES,
            &self.batch,
            tag_of(number),
        )?;
        self.pieces[entry_of(number)].transfers += 1;
        self.in_flight += 1;
        self.asked += pages;
        Ok(true)
    }

    /// The first saved page behind the piece that is verified next.
    fn next_end(&self) -> u64 {
        ((self.verified + 1) * PIECE_PAGES).min(self.image.header.saved_pages)
    }

    fn next_entry(&self) -> &Piece<'l> {
        &self.pieces[entry_of(self.verified)]
    }

    fn is_next_complete(&self) -> bool {
        let begun = self.asked > self.verified * PIECE_PAGES;
        begun && self.asked >= self.next_end() && self.next_entry().transfers == 0
    }

    fn verify_next(&mut self, memory: &OsMemory) -> Result<(), LoadError> {
        let piece = self.verified;
        let mut pages = self.next_entry().pages.clone();
        let mut hasher = Hasher::new();
        for _ in piece * PIECE_PAGES..self.next_end() {
            let Some(page) = pages.next(memory) else {
                break;
            };
            hasher.page(memory.page(page));
        }
        if self.image.digest(piece) != Some(hasher.finish()) {
            return Err(LoadError::DamagedPiece { piece });
        }
        self.verified += 1;
        Ok(())
    }

    /// Zeroes a few pages; whether that was the last of them.
    fn zero_some(&mut self, memory: &mut OsMemory) -> bool {
        for _ in 0..ZERO_PAGES {
            let Some(page) = self.zeros.next(memory) else {
                return true;
            };
            memory.zero(page);
        }
        false
    }
}
