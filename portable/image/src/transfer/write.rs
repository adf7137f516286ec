//! Writes page data.

use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::{
    OsMemory, OsPage, PAGE_BYTES, Page, PageCursor, PageHasher, PageMap, to_usize,
};

use super::error::SaveError;
use super::pieces::{AHEAD, Piece, Pieces, digest_or_seal};
use super::sealed::SealedPieces;
use super::workspace::{Workspace, no_map};
use crate::Progress;
use crate::format::digest::Digest;
use crate::format::layout::{PIECE_PAGES, digest_pages};
use crate::scan::scanner::{Holds, PageScanner, ScanCursor};
use crate::scan::strided_fills::Finder;
use crate::seal::Cipher;
use crate::workers::Workers;

/// What [`write_memory`] has written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Pages of page data.
    pub(crate) pages: u64,
    /// Bytes of the list of strided fills.
    pub(crate) strided_fill_bytes: u64,
}

/// Writes the pages of the workspace's map that are neither zero nor in a strided fill to
/// the slot, from its page `data` on. Removes the others from the map, and fills in the
/// lists of strided fills and digests. Which pieces are sealed in memory, also after an error,
/// is in the workspace then.
pub(crate) fn write_memory<M: Medium>(
    slot: &mut M,
    memory: &OsMemory,
    data: u64,
    workspace: &mut Workspace<'_>,
    cipher: Option<&Cipher>,
    workers: &dyn Workers,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, SaveError> {
    // These are the pages to scan.
    let map = PageMap::from_saved(workspace.map, memory.pages()).map_err(no_map)?;
    // The section has room for the digests of all of memory.
    let most = map.try_count(|| workers.go_on())?;
    let (digests, rest) = (workspace.digests).split_at_mut(to_usize(digest_pages(most)));
    let digests = Page::words_mut(digests);
    digests.fill(0);
    let pieces = Pieces::new(workers);
    let scanner = PageScanner::new(workers, memory, cipher.is_none());
    let work = |piece: &Piece| digest_or_seal(piece, memory, cipher, workers);
    let mut writer = Writer {
        batch_pages: (slot.max_pages() as u64).clamp(1, PIECE_PAGES),
        slot,
        memory,
        pieces: &pieces,
        sealed: cipher.is_some(),
        data,
        digests,
        map,
        scan: ScanCursor::new(&scanner, rest),
        strided_fills: Finder::new(workspace.strided_fills),
        cursor: PageCursor::new(),
        scanned: 0,
        saved: 0,
        filled: 0,
        sent: 0,
        flushed: 0,
        retired: 0,
        in_flight: 0,
    };
    let mut result = Ok(());
    workers.run(
        &mut || {
            result = writer.run(&work, progress);
            pieces.end();
        },
        &|| pieces.help(&work, || scanner.look_ahead()),
    );
    if result.is_err() {
        writer.slot.quiesce();
    }
    let sealed = writer.sealed_pieces();
    let written = Written {
        pages: writer.saved,
        strided_fill_bytes: writer.strided_fills.bytes(),
    };
    workspace.sealed_pieces = sealed;
    result.map(|()| written)
}

/// Pages scanned between two calls of `progress`: 16 MiB.
const PROGRESS_PAGES: u64 = 4096;

/// Pages written between two flushes: 256 MiB. So the device empties its cache while more is
/// written, and the last flush has little to do; more of them would cost more than that.
const FLUSH_PAGES: u64 = 1 << 16;

/// The coordinator of a save: collects pages into pieces, and writes them; a piece that is
/// to be sealed when the workers have done so.
struct Writer<'w, M> {
    slot: &'w mut M,
    memory: &'w OsMemory,
    pieces: &'w Pieces<'w>,
    sealed: bool,
    batch_pages: u64,
    /// First page of the slot that holds page data.
    data: u64,
    digests: &'w mut [u64],
    map: PageMap<'w>,
    scan: ScanCursor<'w>,
    strided_fills: Finder<'w>,
    cursor: PageCursor,
    /// Pages of memory looked at.
    scanned: u64,
    /// Pages that were put into pieces.
    saved: u64,
    /// Pieces filled.
    filled: u64,
    /// Pages in transfers that have been started.
    sent: u64,
    /// `sent_pages` at the latest flush.
    flushed: u64,
    /// Pieces that are digested and written; their entries are free.
    retired: u64,
    in_flight: usize,
}

impl<M: Medium> Writer<'_, M> {
    fn run(
        &mut self,
        work: &impl Fn(&Piece) -> Digest,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), SaveError> {
        if !self.has_room_for(0) {
            return Err(self.too_small(0));
        }
        loop {
            self.pieces.go_on()?;
            let mut moved = self.reap()?;
            while self.send()? {
                moved = true;
            }
            moved |= self.retire();
            if self.scanned < self.memory.pages() && self.filled - self.retired < AHEAD {
                self.fill(progress)?;
            } else if self.retired == self.filled && self.in_flight == 0 {
                break;
            } else if !moved && !self.pieces.work_on_one(work) && !self.scan.look_ahead() {
                self.pieces.pause();
            }
        }
        self.show(progress);
        Ok(())
    }

    /// What has been sealed in place so far. Behind the pieces that are filled the map has
    /// pages that were not scanned.
    fn sealed_pieces(&self) -> SealedPieces {
        if !self.sealed {
            return SealedPieces::NONE;
        }
        SealedPieces::first(self.retired, |number| match number < self.filled {
            true => self.pieces.piece(number).sealed(),
            false => 0,
        })
    }

    /// Collects the next piece; false if there are no more pages.
    fn fill(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<(), SaveError> {
        let mut piece = self.pieces.begin(self.filled);
        let mut hasher = PageHasher::new();
        while !piece.pages.is_full() {
            self.pieces.go_on()?;
            let Some((index, page, holds)) = self.next_page() else {
                self.scanned = self.memory.pages();
                break;
            };
            if self.scanned / PROGRESS_PAGES != (index + 1) / PROGRESS_PAGES {
                self.show(progress);
            }
            self.scanned = index + 1;
            let Some(hash) = self.hash_to_save(index, page, holds) else {
                self.map.remove(index);
                continue;
            };
            if !self.has_room_for(1) {
                return Err(self.too_small(1));
            }
            self.saved += 1;
            piece.pages.push(page);
            hasher.hashed_page(hash);
        }
        if !piece.pages.is_empty() {
            drop(piece);
            if self.sealed {
                self.pieces.set_ready(self.filled);
            } else {
                self.pieces.set_done(self.filled, Digest::of(&hasher));
            }
            self.filled += 1;
        }
        Ok(())
    }

    /// The page's hash, if hashes are wanted; `None` if it is zero or in a strided fill.
    fn hash_to_save(&mut self, index: u64, page: OsPage, holds: Holds) -> Option<u64> {
        let memory = self.memory;
        let ahead = |index| memory.at(index).map(|page| memory.page(page));
        match holds {
            Holds::Zeros => None,
            Holds::StridedFill => {
                let page = memory.page(page);
                (!self.strided_fills.takes(index, page, ahead)).then(|| self.scan.hash(page))
            }
            Holds::Other { hash } => {
                self.strided_fills.passes(index);
                Some(hash)
            }
        }
    }

    /// The next page that may be in use.
    fn next_page(&mut self) -> Option<(u64, OsPage, Holds)> {
        let (index, holds) = self.scan.next(&self.map)?;
        Some((index, self.cursor.seek(self.memory, index)?, holds))
    }

    fn show(&self, progress: &mut dyn FnMut(Progress)) {
        progress(Progress {
            done_pages: self.scanned,
            total_pages: self.memory.pages(),
            moved_bytes: self.sent * PAGE_BYTES,
        });
    }

    /// Polls the medium for finished transfers.
    fn reap(&mut self) -> Result<bool, MediumError> {
        let mut moved = false;
        while self.in_flight > 0 && self.slot.poll()?.is_some() {
            self.in_flight -= 1;
            moved = true;
        }
        Ok(moved)
    }

    /// Starts the next transfer; false if there is none, or no room for it.
    fn send(&mut self) -> Result<bool, SaveError> {
        let number = self.sent / PIECE_PAGES;
        let begun = self.sent % PIECE_PAGES;
        let none = self.sent == self.saved || self.in_flight >= self.slot.depth();
        if none || !self.pieces.is_done(number) {
            return Ok(false);
        }
        // A piece that is done is sealed as a whole, unless the power fails.
        self.pieces.go_on()?;
        let piece = self.pieces.piece(number);
        let rest = &piece.pages[to_usize(begun)..];
        let pages = &rest[..rest.len().min(to_usize(self.batch_pages))];
        let offset = (self.data + self.sent) * PAGE_BYTES;
        self.slot.start(Direction::Write, offset, pages, 0)?;
        self.in_flight += 1;
        self.sent += pages.len() as u64;
        drop(piece);
        self.flush_on_the_way()?;
        Ok(true)
    }

    fn flush_on_the_way(&mut self) -> Result<(), MediumError> {
        if self.sent - self.flushed < FLUSH_PAGES || self.in_flight >= self.slot.depth() {
            return Ok(());
        }
        if self.slot.start_flush(0)? {
            self.in_flight += 1;
        }
        self.flushed = self.sent;
        Ok(())
    }

    /// Stores the digest of the oldest piece once that is computed and the piece is written.
    fn retire(&mut self) -> bool {
        let number = self.retired;
        let end = ((number + 1) * PIECE_PAGES).min(self.saved);
        let ready = number < self.filled && self.sent >= end;
        if !ready || !self.pieces.is_done(number) {
            return false;
        }
        let digest = self.pieces.retire(number);
        let at = to_usize(number) * digest.0.len();
        self.digests[at..at + digest.0.len()].copy_from_slice(&digest.0);
        self.retired += 1;
        true
    }

    /// The first page of the slot behind the pages taken so far.
    fn end(&self) -> u64 {
        self.data + self.saved
    }

    fn has_room_for(&self, pages: u64) -> bool {
        self.end() + pages <= self.slot.capacity() / PAGE_BYTES
    }

    /// The error that says how much room an image needs: for the pages taken so
    /// far, for `more` pages, and for those not looked at that are not zero,
    /// strided fills among them.
    fn too_small(&self, more: u64) -> SaveError {
        let mut cursor = self.cursor.clone();
        let mut rest = self.map.members();
        rest.skip_to(self.scanned);
        let rest = rest
            .take_while(|_| self.pieces.go_on().is_ok())
            .filter_map(|index| cursor.seek(self.memory, index))
            .filter(|page| !self.memory.page(*page).is_zero());
        SaveError::TooSmall {
            needed_bytes: (self.end() + more + rest.count() as u64) * PAGE_BYTES,
            slot_bytes: self.slot.capacity(),
        }
    }
}
