//! A record in memory, for tests.

extern crate std;

use core::cell::{Cell, RefCell};
use std::vec;
use std::vec::Vec;

use poorwill_image::Digest;
use poorwill_memory::Page;
use poorwill_vault::{CutVault, Key};
use zerocopy::{FromBytes, IntoBytes};

use super::find::last_sequence;
use super::{
    CutCommitted, CutMemory, CutReason, LINE_BYTES, Layout, Line, PartEntry, Place, Proof, Prover,
    RequestMachine, StopMachine, WearWords, request, stop,
};
use crate::vault_state::{VaultFault, VaultState};

/// Bytes of a page.
const PAGE: usize = size_of::<Page>();

/// The record of a machine without caches.
#[derive(Debug)]
pub struct FakeRecord {
    layout: Layout,
    pages: RefCell<Vec<Page>>,
    /// The number that the machine's vault has given.
    number: Cell<u64>,
    /// Which harts run.
    running: Vec<bool>,
    /// The key in the machine's vault, if it has one.
    pub key: Option<[u8; 32]>,
    /// Ticks that the next Stop takes.
    pub ticks: u64,
    /// Why the next Stop is not finished, if it is not.
    pub fails: Option<CutReason>,
}

impl FakeRecord {
    /// An empty one, of a machine with these harts, of which those that are `true` run.
    #[must_use]
    pub fn new(running: &[bool]) -> Self {
        let layout = Layout::new(running.len(), Layout::TREE_PAGES);
        let pages = vec![Page::ZERO; layout.pages()];
        FakeRecord {
            layout,
            pages: RefCell::new(pages),
            number: Cell::new(0),
            running: running.to_vec(),
            key: None,
            ticks: 0,
            fails: None,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.pages.borrow().as_bytes().to_vec()
    }

    /// The power fails.
    ///
    /// # Errors
    ///
    /// What [`fails`](Self::fails) says.
    pub fn stop(&self) -> Result<CutCommitted, CutReason> {
        self.number.set(last_sequence(self) + 1);
        stop(self)
    }

    /// The OS asks for a cut.
    ///
    /// # Errors
    ///
    /// What [`fails`](Self::fails) says.
    pub fn request(&self) -> Result<CutCommitted, CutReason> {
        self.number.set(last_sequence(self) + 1);
        request(self)
    }

    /// Writes a part of so many bytes.
    fn write_part(&self, part: usize, sequence: u64, bytes: usize) {
        let start = self.layout.part_pages(part).start * PAGE;
        self.pages.borrow_mut().as_mut_bytes()[start..start + bytes].fill(0x5a);
        let bytes = bytes as u64;
        let digest = self.with_proof(|proof| self.digest(part, bytes, proof));
        let digest = digest.ok().flatten().expect("it is in its pages");
        let entry = PartEntry { bytes, digest };
        self.store(Place::Part(part), &Line::part(sequence, entry));
    }
}

impl CutMemory for FakeRecord {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn line(&self, place: Place) -> Line {
        let start = self.layout.line_offset(place);
        let pages = self.pages.borrow();
        Line::read_from_bytes(&pages.as_bytes()[start..start + LINE_BYTES]).expect("a line")
    }

    fn store(&self, place: Place, line: &Line) {
        let start = self.layout.line_offset(place);
        let mut pages = self.pages.borrow_mut();
        pages.as_mut_bytes()[start..start + LINE_BYTES].copy_from_slice(line.as_bytes());
    }

    fn write_back(&self, _place: Place) {}

    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest> {
        let pages = self.pages.borrow();
        proof.of_part(part, &pages[self.layout.part_pages(part)], bytes)
    }
}

impl StopMachine for FakeRecord {
    fn record(&self) -> &impl CutMemory {
        self
    }

    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
        Ok(job(&self.key.map_or(Proof::Checksums, |key| {
            Proof::tags(&Key::new(&key), self.number.get())
        })))
    }

    fn forget(&self) -> Result<(), CutReason> {
        Ok(())
    }

    fn halt(&self, _: u64) -> Result<(), CutReason> {
        Ok(())
    }

    fn shut(&self) -> Result<(), CutReason> {
        Ok(())
    }

    fn gather(&self, sequence: u64) -> Result<(), CutReason> {
        for (place, runs) in self.running.iter().enumerate() {
            self.write_part(Layout::hart(place), sequence, if *runs { 600 } else { 0 });
        }
        self.fails.map_or(Ok(()), Err)
    }

    fn capture(&self, sequence: u64) -> Result<(), CutReason> {
        self.write_part(Layout::SHARED, sequence, 300);
        self.write_part(Layout::TREE, sequence, 5000);
        Ok(())
    }

    fn quiet(&self, sequence: u64) -> Result<(), CutReason> {
        self.write_part(Layout::DEVICES, sequence, 400);
        Ok(())
    }

    fn ticks(&self) -> u64 {
        self.ticks
    }

    fn flush(&self) -> Result<(), CutReason> {
        Ok(())
    }

    fn has_memory_error(&self) -> bool {
        false
    }

    fn wear(&self) -> WearWords {
        WearWords::new()
    }
}

impl Prover for FakeRecord {
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R {
        job(VaultState::Absent)
    }

    fn new_key(&self) -> Key {
        Key::new(&[7; 32])
    }

    fn keep(&self, _: Result<Proof, VaultFault>) {}
}

impl RequestMachine for FakeRecord {
    fn resume(&self) {}
}
