//! The pages that a save has sealed in place, and how to open them.

use core::sync::atomic::{AtomicU32, Ordering};

use poorwill_memory::{OsMemory, Page, PageMap, PageMapError, PageWalk, to_usize};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::pieces::{AHEAD, Piece, Pieces};
use crate::format::digest::Digest;
use crate::format::layout::PIECE_PAGES;
use crate::format::seal_mark::Salt;
use crate::seal::{Cipher, CipherDirection, Part, SealingKey};
use crate::workers::{PowerFails, Workers};

/// The number of pieces in progress at once.
const IN_WORK: usize = to_usize(AHEAD);

/// The sealed pages of each piece: a number of its first pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SealedPieces {
    /// Pieces before this one have no sealed pages.
    open: u64,
    /// The number of sealed pages in each of the next pieces.
    opening: [u16; IN_WORK],
    /// Pieces after those of `opening`, and before this one, are fully sealed.
    whole: u64,
    /// The number of sealed pages in each of the next pieces; later pieces have no sealed
    /// pages.
    sealing: [u16; IN_WORK],
}

impl SealedPieces {
    pub(crate) const NONE: Self = SealedPieces {
        open: 0,
        opening: [0; IN_WORK],
        whole: 0,
        sealing: [0; IN_WORK],
    };

    /// A value in which the first `whole` pieces are fully sealed. `pages` returns the number of
    /// sealed pages of a later piece.
    pub(crate) fn first(whole: u64, pages: impl Fn(u64) -> u32) -> Self {
        let sealing = in_work_from(whole, &pages);
        let first = SealedPieces {
            whole,
            sealing,
            ..Self::NONE
        };
        first.opened(0, |number| match number < whole {
            true => u32::MAX,
            false => pages(number),
        })
    }

    /// The same value without sealed pages before piece `open`. `pages` returns the number of
    /// sealed pages of the next pieces.
    fn opened(self, open: u64, pages: impl Fn(u64) -> u32) -> Self {
        SealedPieces {
            open,
            opening: in_work_from(open, pages),
            ..self
        }
    }

    /// The number of sealed pages in a piece. A short piece has fewer pages than this.
    fn of(&self, number: u64) -> u32 {
        let in_work = |first: u64| {
            let ahead = number.checked_sub(first)?;
            (ahead < AHEAD).then_some(to_usize(ahead))
        };
        if number < self.open {
            0
        } else if let Some(ahead) = in_work(self.open) {
            self.opening[ahead].into()
        } else if number < self.whole {
            u32::MAX
        } else {
            in_work(self.whole).map_or(0, |ahead| self.sealing[ahead].into())
        }
    }

    /// The first piece after all pieces with sealed pages.
    fn end(&self) -> u64 {
        let sealing = self.whole.saturating_add(AHEAD);
        sealing.max(self.open.saturating_add(AHEAD))
    }
}

/// The value of `pages` for each of the next pieces from `first`.
fn in_work_from(first: u64, pages: impl Fn(u64) -> u32) -> [u16; IN_WORK] {
    core::array::from_fn(|ahead| {
        let pages = pages(first + ahead as u64);
        u16::try_from(pages).unwrap_or(u16::MAX)
    })
}

/// The memory that a save has left sealed after a power failure. With the machine's key
/// and the unchanged workspace, [`open_in_place`](crate::open_in_place) opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SealedMemory {
    generation: u64,
    salt: [u8; 8],
    /// The number of the page map's own first pages that are sealed.
    map_pages: u64,
    pieces: SealedPieces,
}

/// The reason why memory is still sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotOpened {
    /// The power fails again. This memory is still sealed.
    #[error("the power fails")]
    PowerFails(SealedMemory),
    /// The page map does not match this memory.
    #[error("the map of sealed pages is damaged: {0}")]
    Map(PageMapError),
}

impl SealedMemory {
    /// The cipher that sealed this memory.
    pub(crate) fn cipher(&self, key: &SealingKey) -> Cipher {
        Cipher::new(key, self.generation, Salt(self.salt))
    }

    /// The memory that was sealed with this generation and salt.
    pub(crate) fn new(
        (generation, salt): (u64, Salt),
        map_pages: u64,
        pieces: SealedPieces,
    ) -> Self {
        SealedMemory {
            generation,
            salt: salt.0,
            map_pages,
            pieces,
        }
    }
}

/// Opens sealed memory in place with the cipher that sealed it. `map` is the page map
/// after the save.
pub(crate) fn open_sealed(
    mut sealed: SealedMemory,
    cipher: &Cipher,
    memory: &OsMemory,
    map: &mut [Page],
    workers: &dyn Workers,
) -> Result<(), NotOpened> {
    let opened = open_map(cipher, map, &mut sealed.map_pages, workers);
    opened.map_err(|PowerFails| NotOpened::PowerFails(sealed))?;
    let map = PageMap::from_saved(map, memory.pages()).map_err(NotOpened::Map)?;
    let left = open_pieces(&sealed.pieces, cipher, memory, &map, workers);
    left.map_or(Ok(()), |pieces| {
        Err(NotOpened::PowerFails(SealedMemory { pieces, ..sealed }))
    })
}

/// Opens the first pages of the map, from the last to the first.
fn open_map(
    cipher: &Cipher,
    map: &mut [Page],
    sealed: &mut u64,
    workers: &dyn Workers,
) -> Result<(), PowerFails> {
    *sealed = (*sealed).min(map.len() as u64);
    while let Some(last) = sealed.checked_sub(1) {
        workers.go_on()?;
        let page = &mut map[to_usize(last)..=to_usize(last)];
        let number = u32::try_from(last).unwrap_or(u32::MAX);
        let mut message = cipher.message_from(Part::Map, number);
        message.pages(CipherDirection::Open, page);
        *sealed = last;
    }
    Ok(())
}

/// Opens the pieces of the pages in `map`. Returns the rest if the power fails.
fn open_pieces(
    sealed: &SealedPieces,
    cipher: &Cipher,
    memory: &OsMemory,
    map: &PageMap<'_>,
    workers: &dyn Workers,
) -> Option<SealedPieces> {
    let pieces = Pieces::new(workers);
    let work = |piece: &Piece| open_piece(piece, cipher, memory, workers);
    let mut pages = PageWalk::new(map.members());
    let (mut filled, mut retired) = (0, 0);
    let mut is_done = false;
    workers.run(
        &mut || {
            let mut ended = false;
            while pieces.go_on().is_ok() && !is_done {
                if !ended && filled - retired < AHEAD {
                    let mut piece = pieces.begin(filled);
                    let rest = core::iter::from_fn(|| pages.next(memory));
                    piece.pages.extend(rest.take(to_usize(PIECE_PAGES)));
                    ended = piece.pages.is_empty() || filled >= sealed.end();
                    let length = u32::try_from(piece.pages.len()).unwrap_or(u32::MAX);
                    piece.sealed = AtomicU32::new(sealed.of(filled).min(length));
                    drop(piece);
                    if ended {
                        continue;
                    }
                    pieces.set_ready(filled);
                    filled += 1;
                } else if retired == filled {
                    is_done = ended;
                } else if pieces.is_done(retired) {
                    // The work on a piece ends early only if the power fails.
                    if pieces.go_on().is_ok() {
                        pieces.retire(retired);
                        retired += 1;
                    }
                } else if !pieces.work_on_one(&work) {
                    pieces.pause();
                }
            }
            pieces.end();
        },
        &|| pieces.help(&work, || false),
    );
    let left = |number| match number < filled {
        true => pieces.piece(number).sealed(),
        false => sealed.of(number),
    };
    (!is_done).then(|| sealed.opened(retired, left))
}

/// Opens the sealed pages of a piece, from the last to the first.
fn open_piece(piece: &Piece, cipher: &Cipher, memory: &OsMemory, workers: &dyn Workers) -> Digest {
    while let Some(last) = piece.sealed().checked_sub(1) {
        if workers.go_on().is_err() {
            break;
        }
        let page = piece.pages[to_usize(last.into())];
        let mut message = cipher.message_from(Part::Piece(piece.number), last);
        message.unseal(memory.words(page));
        piece.sealed.store(last, Ordering::Relaxed);
    }
    Digest::ZERO
}
