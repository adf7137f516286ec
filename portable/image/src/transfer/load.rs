use arrayvec::ArrayVec;
use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::{OsMemory, OsPage, PAGE_BYTES, PageWalk, to_usize};
use spin::Mutex;

use super::error::LoadError;
use super::open::{Checked, Opened};
use super::pieces::{self, AHEAD, Piece, Pieces};
use crate::Progress;
use crate::format::digest::Digest;
use crate::format::free::FreeRuns;
use crate::format::layout::{self, PIECE_PAGES};
use crate::format::strided_fills::StridedFills;
use crate::workers::Workers;

/// The proof that all OS memory is restored.
#[derive(Debug, PartialEq, Eq)]
pub struct Loaded {
    pub(crate) loaded_pages: u64,
}

impl Loaded {
    /// The number of pages read from the medium.
    #[must_use]
    pub fn loaded_pages(&self) -> u64 {
        self.loaded_pages
    }
}

/// Restores all OS memory. Reads saved pages from `slot`, verifies each piece, and decrypts it in
/// place if it is sealed. Writes out strided fills. Zeroes all other pages, except long free runs
/// if memory is already clear (see [`Here::is_clear`](crate::Here::is_clear)).
///
/// # Errors
///
/// See [`LoadError`]. No DMA is in progress then. After a failed load of a sealed image,
/// all OS memory is cleared.
pub fn load<M: Medium>(
    slot: &mut M,
    opened: &Opened<'_>,
    memory: &mut OsMemory,
    workers: &dyn Workers,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, LoadError> {
    let (image_pages, memory_pages) = (opened.header.os_pages, memory.pages());
    if image_pages != memory_pages {
        return Err(LoadError::OtherMemory {
            image_pages,
            memory_pages,
        });
    }
    let memory = &*memory;
    let shared = Pieces::new(workers);
    let left = opened.leave_free.then_some(opened.free);
    let unsaved = Unsaved {
        walk: Mutex::new(UnsavedWalk {
            pages: PageWalk::new(opened.map.others()),
            left: left.unwrap_or_default(),
        }),
        strided_fills: opened.strided_fills,
    };
    let work = |piece: &Piece| match &opened.cipher {
        Some(cipher) => {
            let expected = opened.digest(piece.number);
            pieces::open(piece, memory, cipher, |tag| Some(tag) == expected)
        }
        None => pieces::digest(piece, memory),
    };
    let mut loader = Loader {
        batch_pages: (slot.max_pages() as u64).clamp(1, PIECE_PAGES),
        slot,
        image: opened,
        memory,
        pieces: &shared,
        wanted: PageWalk::new(opened.map.members()),
        asked: 0,
        transfers: [0; to_usize(AHEAD)],
        in_flight: 0,
        verified: 0,
    };
    let mut result = Ok(());
    workers.run(
        &mut || {
            result = loader.run(&work, &unsaved, progress);
            shared.end();
        },
        &|| shared.help(&work, || unsaved.fill_some(memory)),
    );
    if result.is_err() {
        loader.slot.quiesce();
        if opened.cipher.is_some() {
            clear(memory, workers);
        }
    }
    result.map(|()| Loaded {
        loaded_pages: opened.header.saved_pages,
    })
}

/// Clears all OS memory, on all available harts.
pub fn clear(memory: &OsMemory, workers: &dyn Workers) {
    let pages = Mutex::new(memory.iter());
    let clear = || {
        loop {
            let some: ArrayVec<OsPage, FILL_PAGES> = {
                let mut pages = pages.lock();
                pages
                    .by_ref()
                    .map(|(_, page)| page)
                    .take(FILL_PAGES)
                    .collect()
            };
            if some.is_empty() {
                return;
            }
            some.iter().for_each(|page| memory.zero(*page));
        }
    };
    workers.run(&mut || clear(), &clear);
}

/// The number of pages that a hart fills before it checks the pieces again.
const FILL_PAGES: usize = 32;

/// The unsaved pages that are not filled yet.
struct UnsavedWalk<'m> {
    pages: PageWalk<'m>,
    /// Free runs among them that stay as they are.
    left: FreeRuns<'m>,
}

impl UnsavedWalk<'_> {
    fn next(&mut self, memory: &OsMemory) -> Option<(u64, OsPage)> {
        while let Some(run) = self.left.first() {
            if self.pages.peek()? < run.first {
                break;
            }
            self.pages.skip_to(run.first + run.pages);
            self.left.next();
        }
        self.pages.next_indexed(memory)
    }
}

/// The same walk, which all harts share.
struct Unsaved<'m> {
    walk: Mutex<UnsavedWalk<'m>>,
    strided_fills: StridedFills<'m>,
}

impl Unsaved<'_> {
    /// Fills a few pages; returns false if there are no more.
    fn fill_some(&self, memory: &OsMemory) -> bool {
        let pages: ArrayVec<(u64, OsPage), FILL_PAGES> = {
            let mut walk = self.walk.lock();
            core::iter::from_fn(|| walk.next(memory))
                .take(FILL_PAGES)
                .collect()
        };
        for (index, page) in &pages {
            match self.strided_fills.at(*index) {
                Some(strided_fill) => strided_fill.fill(memory.words(*page)),
                None => memory.zero(*page),
            }
        }
        !pages.is_empty()
    }
}

/// The coordinator of a load. It keeps the medium busy with reads, hands arrived pieces
/// to the workers, and compares their digests.
struct Loader<'l, M> {
    slot: &'l mut M,
    image: &'l Checked<'l>,
    memory: &'l OsMemory,
    pieces: &'l Pieces<'l>,
    batch_pages: u64,
    /// The pages whose reads are not started yet.
    wanted: PageWalk<'l>,
    /// The number of pages whose reads are started.
    asked: u64,
    /// The transfers in flight of each piece. The index of a piece's entry is the tag of
    /// its transfers.
    transfers: [u32; to_usize(AHEAD)],
    in_flight: usize,
    verified: u64,
}

impl<M: Medium> Loader<'_, M> {
    fn run(
        &mut self,
        work: &impl Fn(&Piece) -> Digest,
        unsaved: &Unsaved<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), LoadError> {
        let total_pages = self.image.header.saved_pages;
        let mut filled = false;
        while self.verified < layout::pieces(total_pages) || !filled {
            self.reap()?;
            while self.ask()? {}
            if self.verify()? {
                let done_pages = self.end_of(self.verified - 1);
                progress(Progress {
                    done_pages,
                    total_pages,
                    moved_bytes: done_pages * PAGE_BYTES,
                });
            } else if self.pieces.work_on_one(work) {
            } else if !filled {
                filled = !unsaved.fill_some(self.memory);
            } else {
                self.pieces.pause();
            }
        }
        Ok(())
    }

    /// The saved page after the end of a piece.
    fn end_of(&self, piece: u64) -> u64 {
        ((piece + 1) * PIECE_PAGES).min(self.image.header.saved_pages)
    }

    /// Polls the medium for finished transfers, and hands out each complete piece.
    fn reap(&mut self) -> Result<(), MediumError> {
        while self.in_flight > 0 {
            let Some(tag) = self.slot.poll()? else {
                return Ok(());
            };
            let transfers = self
                .transfers
                .get_mut(tag as usize)
                .filter(|transfers| **transfers > 0)
                .ok_or(MediumError::Protocol)?;
            *transfers -= 1;
            self.in_flight -= 1;
            let ahead = (u64::from(tag) + AHEAD - self.verified % AHEAD) % AHEAD;
            let piece = self.verified + ahead;
            if *transfers == 0 && self.asked >= self.end_of(piece) {
                self.pieces.set_ready(piece);
            }
        }
        Ok(())
    }

    /// Starts the next transfer; false if there is no transfer or no room for it.
    fn ask(&mut self) -> Result<bool, MediumError> {
        let number = self.asked / PIECE_PAGES;
        let begun = self.asked % PIECE_PAGES;
        let left = self.image.header.saved_pages - self.asked;
        let busy = self.in_flight >= self.slot.depth();
        if left == 0 || busy || number >= self.verified + AHEAD {
            return Ok(false);
        }
        if begun == 0 {
            let mut piece = self.pieces.begin(number);
            let pages = core::iter::from_fn(|| self.wanted.next(self.memory));
            piece
                .pages
                .extend(pages.take(to_usize(left.min(PIECE_PAGES))));
        }
        let piece = self.pieces.piece(number);
        let rest = piece.pages.get(to_usize(begun)..).unwrap_or_default();
        let pages = &rest[..rest.len().min(to_usize(self.batch_pages))];
        let tag = (number % AHEAD) as u32;
        let first_page = self.image.header.data.first_page + self.asked;
        self.slot
            .start(Direction::Read, first_page * PAGE_BYTES, pages, tag)?;
        self.transfers[tag as usize] += 1;
        self.in_flight += 1;
        self.asked += pages.len() as u64;
        Ok(true)
    }

    /// Compares the digest of the next piece, if its work is done.
    fn verify(&mut self) -> Result<bool, LoadError> {
        let piece = self.verified;
        let asked = piece * PIECE_PAGES < self.asked;
        if !asked || !self.pieces.is_done(piece) {
            return Ok(false);
        }
        if self.image.digest(piece) != Some(self.pieces.retire(piece)) {
            return Err(LoadError::DamagedPiece { piece });
        }
        self.verified += 1;
        Ok(true)
    }
}
