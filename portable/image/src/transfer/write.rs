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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) pages: u64,
    /// The length of the list of strided fills in bytes.
    pub(crate) strided_fill_bytes: u64,
}

/// Writes the pages of the workspace's map that are neither zero nor in a strided fill,
/// to the slot from its page `data` on. Removes the others from the map, and fills the
/// lists of strided fills and digests. Stores in the workspace which pieces are sealed in
/// memory, also after an error.
pub(crate) fn write_memory<M: Medium>(
    slot: &mut M,
    memory: &OsMemory,
    data: u64,
    workspace: &mut Workspace<'_>,
    cipher: Option<&Cipher>,
    workers: &dyn Workers,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, SaveError> {
    // The pages to scan.
    let map = PageMap::from_saved(workspace.map, memory.pages()).map_err(no_map)?;
    // The section has room for the digests of all memory.
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

/// The number of pages scanned between two calls of `progress`: 16 MiB.
const PROGRESS_PAGES: u64 = 4096;

/// The number of pages written between two flushes: 256 MiB. The device then empties its
/// cache during the writes, and the last flush is short. More flushes would cost more
/// than they save.
const FLUSH_PAGES: u64 = 1 << 16;

/// The coordinator of a save. It collects pages into pieces, and writes each piece. In a sealed
/// image the workers seal it before.
struct Writer<'w, M> {
    slot: &'w mut M,
    memory: &'w OsMemory,
    pieces: &'w Pieces<'w>,
    sealed: bool,
    batch_pages: u64,
    /// The slot's first page of page data.
    data: u64,
    digests: &'w mut [u64],
    map: PageMap<'w>,
    scan: ScanCursor<'w>,
    strided_fills: Finder<'w>,
    cursor: PageCursor,
    scanned: u64,
    /// The number of pages put into pieces.
    saved: u64,
    filled: u64,
    /// The number of pages in started transfers.
    sent: u64,
    /// `sent` at the latest flush.
    flushed: u64,
    /// The number of pieces that are digested and written; their entries are free.
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

    /// The pages that are sealed in place. After those of the filled pieces, the map has pages that
    /// were not scanned.
    fn sealed_pieces(&self) -> SealedPieces {
        if !self.sealed {
            return SealedPieces::NONE;
        }
        SealedPieces::first(self.retired, |number| match number < self.filled {
            true => self.pieces.piece(number).sealed(),
            false => 0,
        })
    }

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

    /// The page's hash, or 0 if hashes are not wanted; `None` if the page need not be
    /// saved.
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

    fn reap(&mut self) -> Result<bool, MediumError> {
        let mut moved = false;
        while self.in_flight > 0 && self.slot.poll()?.is_some() {
            self.in_flight -= 1;
            moved = true;
        }
        Ok(moved)
    }

    /// Starts the next transfer; false if there is no transfer or no room for it.
    fn send(&mut self) -> Result<bool, SaveError> {
        let number = self.sent / PIECE_PAGES;
        let begun = self.sent % PIECE_PAGES;
        let none = self.sent == self.saved || self.in_flight >= self.slot.depth();
        if none || !self.pieces.is_done(number) {
            return Ok(false);
        }
        // A piece that is done is completely sealed, unless the power fails.
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

    /// Stores the digest of the oldest piece after the piece is digested and written.
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

    /// The first page of the slot after all pages taken so far.
    fn end(&self) -> u64 {
        self.data + self.saved
    }

    fn has_room_for(&self, pages: u64) -> bool {
        self.end() + pages <= self.slot.capacity() / PAGE_BYTES
    }

    /// The error with the length that the image needs: the pages taken so far, `more`
    /// pages, and all unscanned pages that are not zero, including strided fills.
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
