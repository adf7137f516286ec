//! Pieces of page data in flight between memory and medium, which all harts hash, seal or
//! open.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use poorwill_memory::{OsMemory, PageHasher, page_words_hash, to_usize};
use spin::{Mutex, MutexGuard};

use crate::format::digest::Digest;
use crate::format::layout::Batch;
use crate::seal::{Cipher, CipherDirection, Part};
use crate::work_state::WorkState;
use crate::workers::{PowerFails, Workers};

/// The number of pieces in flight: enough to keep a device busy while each hart works on
/// a piece.
pub(crate) const AHEAD: u64 = 16;

#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) number: u64,
    pub(crate) pages: Batch,
    pub(crate) sealed: AtomicU32,
}

impl Piece {
    pub(crate) fn sealed(&self) -> u32 {
        self.sealed.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Entry {
    state: WorkState,
    /// The work state decides which hart may lock this, so no hart waits for the lock.
    piece: Mutex<Piece>,
    digest: [AtomicU64; 2],
}

impl Entry {
    fn new() -> Self {
        Entry {
            state: WorkState::new(),
            piece: Mutex::new(Piece {
                number: 0,
                pages: Batch::new(),
                sealed: AtomicU32::new(0),
            }),
            digest: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    fn finish(&self, digest: Digest) {
        for (word, value) in self.digest.iter().zip(digest.0) {
            word.store(value, Ordering::Relaxed);
        }
        self.state.finish();
    }
}

/// The pieces in flight: piece `n` is in entry `n % AHEAD`. The coordinator fills and
/// empties the entries. All harts, including the coordinator, work on pieces that are
/// ready.
pub(crate) struct Pieces<'c> {
    workers: &'c dyn Workers,
    entries: [Entry; to_usize(AHEAD)],
    /// The piece that the coordinator needs next. Workers take pieces from here on first.
    oldest: AtomicU64,
    ended: AtomicBool,
}

impl<'c> Pieces<'c> {
    pub(crate) fn new(workers: &'c dyn Workers) -> Self {
        Pieces {
            workers,
            entries: core::array::from_fn(|_| Entry::new()),
            oldest: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[to_usize(number % AHEAD)]
    }

    /// Empties the entry of a new piece, for the coordinator to fill.
    pub(crate) fn begin(&self, number: u64) -> MutexGuard<'_, Piece> {
        let mut piece = self.entry(number).piece.lock();
        piece.number = number;
        piece.pages.clear();
        piece.sealed = AtomicU32::new(0);
        piece
    }

    pub(crate) fn piece(&self, number: u64) -> MutexGuard<'_, Piece> {
        self.entry(number).piece.lock()
    }

    pub(crate) fn set_ready(&self, number: u64) {
        self.entry(number).state.give();
        self.workers.call();
    }

    /// Marks a piece that needs no work as done.
    pub(crate) fn set_done(&self, number: u64, digest: Digest) {
        self.entry(number).finish(digest);
    }

    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.entry(number).state.is_done()
    }

    /// Takes back the oldest piece and frees its entry. Returns its digest.
    pub(crate) fn retire(&self, number: u64) -> Digest {
        let entry = self.entry(number);
        entry.state.take_back();
        self.oldest.store(number + 1, Ordering::Relaxed);
        Digest([0, 1].map(|word: usize| entry.digest[word].load(Ordering::Relaxed)))
    }

    /// Works on a ready piece, if there is one.
    pub(crate) fn work_on_one(&self, work: &impl Fn(&Piece) -> Digest) -> bool {
        let oldest = self.oldest.load(Ordering::Relaxed);
        let taken = (oldest..oldest + AHEAD)
            .map(|number| self.entry(number))
            .find(|entry| entry.state.take());
        let Some(entry) = taken else {
            return false;
        };
        let digest = work(&entry.piece.lock());
        entry.finish(digest);
        true
    }

    /// The loop of a worker hart until the coordinator ends it. The hart works on pieces;
    /// if no piece is ready, it calls `other`; if that has nothing to do, it idles.
    pub(crate) fn help(&self, work: &impl Fn(&Piece) -> Digest, other: impl Fn() -> bool) {
        while !self.ended.load(Ordering::Acquire) {
            if !self.work_on_one(work) && !other() {
                self.workers.idle();
            }
        }
    }

    pub(crate) fn go_on(&self) -> Result<(), PowerFails> {
        self.workers.go_on()
    }

    pub(crate) fn pause(&self) {
        self.workers.pause();
    }

    /// Ends the workers' loops. Ready pieces stay ready.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.workers.call();
    }
}

/// Computes the digest of a plain piece, or seals a piece in place and returns its tag.
/// The result is invalid if the power fails before the end.
// Not inlined: tests/kernel/kernel.ld names it.
#[inline(never)]
pub(crate) fn digest_or_seal(
    piece: &Piece,
    memory: &OsMemory,
    cipher: Option<&Cipher>,
    workers: &dyn Workers,
) -> Digest {
    let Some(cipher) = cipher else {
        return digest(piece, memory);
    };
    let mut message = cipher.message(Part::Piece(piece.number));
    for (sealed, page) in (1..).zip(&piece.pages) {
        if workers.go_on().is_err() {
            break;
        }
        message.page(CipherDirection::Seal, memory.words(*page));
        piece.sealed.store(sealed, Ordering::Relaxed);
    }
    message.finish()
}

/// The digest of a piece of plain page data.
// Not inlined: tests/kernel/kernel.ld names it.
#[inline(never)]
pub(crate) fn digest(piece: &Piece, memory: &OsMemory) -> Digest {
    let mut hasher = PageHasher::new();
    for page in &piece.pages {
        hasher.hashed_page(page_words_hash(memory.words(*page)));
    }
    Digest::of(&hasher)
}

/// Verifies a sealed piece's tag with `is_right`, and then opens it in place. Returns the
/// tag. Forged data is never decrypted.
// Not inlined: tests/kernel/kernel.ld names it.
#[inline(never)]
pub(crate) fn open(
    piece: &Piece,
    memory: &OsMemory,
    cipher: &Cipher,
    is_right: impl FnOnce(Digest) -> bool,
) -> Digest {
    let pages = || piece.pages.iter().map(|page| memory.words(*page));
    let mut message = cipher.message(Part::Piece(piece.number));
    pages().for_each(|words| message.authenticate(words));
    let tag = message.finish();
    if is_right(tag) {
        let mut message = cipher.message(Part::Piece(piece.number));
        pages().for_each(|words| message.unseal(words));
    }
    tag
}

#[cfg(test)]
mod tests {
    use poorwill_memory::Page;
    use poorwill_memory::fake::FakeMemory;

    use super::*;
    use crate::format::seal_mark::Salt;
    use crate::seal::SealingKey;
    use crate::workers::NoWorkers;

    #[test]
    fn a_piece_is_opened_only_if_its_tag_is_right() {
        let cipher = Cipher::new(&SealingKey::new([7; 32]), 3, Salt([5; 8]));
        let plain = [const { Page([0x5ec2_e7a5; 512]) }; 3];
        let mut memory = FakeMemory::new(&[3]);
        for (index, page) in (0..).zip(&plain) {
            memory.set(index, page);
        }
        let os = memory.os();
        let piece = Piece {
            number: 9,
            pages: os.iter().map(|(_, page)| page).collect(),
            sealed: AtomicU32::new(0),
        };
        let tag = digest_or_seal(&piece, os, Some(&cipher), &NoWorkers);
        let sealed = memory.contents();
        let os = memory.os();
        assert_eq!(open(&piece, os, &cipher, |_| false), tag);
        assert!(memory.contents() == sealed, "it stays as it came");
        let os = memory.os();
        assert_eq!(open(&piece, os, &cipher, |found| found == tag), tag);
        assert!(memory.contents() == plain);
    }
}
