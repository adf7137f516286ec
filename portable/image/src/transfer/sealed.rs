//! What a save has sealed in memory, and how it is opened there.

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

/// How many pieces are in work at once.
const IN_WORK: usize = to_usize(AHEAD);

/// Which pages of which pieces are sealed where they lie: of each piece some pages, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SealedPieces {
    /// Pieces up to this one have no sealed pages,
    open: u64,
    /// those from there on have so many,
    opening: [u16; IN_WORK],
    /// and of what comes then, all those up to this one are sealed;
    whole: u64,
    /// those from there on have so many, and the others none.
    sealing: [u16; IN_WORK],
}

impl SealedPieces {
    /// No piece has any.
    pub(crate) const NONE: Self = SealedPieces {
        open: 0,
        opening: [0; IN_WORK],
        whole: 0,
        sealing: [0; IN_WORK],
    };

    /// All pages of the first pieces, `whole` of them, and of those behind `pages`.
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

    /// The same, with no sealed pages up to piece `open`, and `pages` of those behind.
    fn opened(self, open: u64, pages: impl Fn(u64) -> u32) -> Self {
        SealedPieces {
            open,
            opening: in_work_from(open, pages),
            ..self
        }
    }

    /// How many pages of a piece are sealed, if it has so many.
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

    /// The first piece from which on none has any.
    fn end(&self) -> u64 {
        let sealing = self.whole.saturating_add(AHEAD);
        sealing.max(self.open.saturating_add(AHEAD))
    }
}

/// So many pages of each of the pieces from `first` on.
fn in_work_from(first: u64, pages: impl Fn(u64) -> u32) -> [u16; IN_WORK] {
    core::array::from_fn(|ahead| {
        let pages = pages(first + ahead as u64);
        u16::try_from(pages).unwrap_or(u16::MAX)
    })
}

/// What a save that the power did not let end has left sealed in memory. With the machine's
/// key and the workspace as it was left, [`open_in_place`](crate::open_in_place) opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SealedMemory {
    generation: u64,
    salt: [u8; 8],
    /// Pages of the page map itself that are sealed, the first.
    map_pages: u64,
    pieces: SealedPieces,
}

/// Why memory is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotOpened {
    /// The power fails again: this is still sealed.
    #[error("the power fails")]
    PowerFails(SealedMemory),
    /// What says which pages are sealed does not fit this memory.
    #[error("the map of sealed pages is damaged: {0}")]
    Map(PageMapError),
}

impl SealedMemory {
    /// The cipher that it was sealed by.
    pub(crate) fn cipher(&self, key: &SealingKey) -> Cipher {
        Cipher::new(key, self.generation, Salt(self.salt))
    }

    /// What was sealed with that number and salt.
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

/// Opens it where it lies, with the cipher that it was sealed by; `map` is the page map as the
/// save has left it.
///
/// # Errors
///
/// [`NotOpened`].
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

/// Opens the first pages of the map, the last of them first.
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

/// Opens the pieces of the pages in `map`; what is left sealed, where the power fails.
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
                    // What has ended early has done so because the power fails.
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

/// Opens the pages of a piece that are sealed, the last of them first.
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
