//! A record in memory, for tests.

extern crate std;

use core::cell::RefCell;
use std::vec;
use std::vec::Vec;

use poorwill_memory::{Page, checksum};
use zerocopy::{FromBytes, IntoBytes};

use super::{
    CutCommitted, CutMemory, CutReason, LINE_BYTES, Layout, Line, PartEntry, Place, StopMachine,
    stop,
};

/// Bytes of a page.
const PAGE: usize = size_of::<Page>();

/// The record of a machine without caches, as bytes.
#[derive(Debug)]
pub struct FakeRecord {
    layout: Layout,
    bytes: RefCell<Vec<u8>>,
    /// Which harts run.
    running: Vec<bool>,
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
        let bytes = vec![0; layout.pages() * PAGE];
        FakeRecord {
            layout,
            bytes: RefCell::new(bytes),
            running: running.to_vec(),
            ticks: 0,
            fails: None,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }

    /// The power fails.
    ///
    /// # Errors
    ///
    /// What [`fails`](Self::fails) says.
    pub fn stop(&self) -> Result<CutCommitted, CutReason> {
        stop(self)
    }

    /// Writes a part of so many bytes.
    fn write_part(&self, part: usize, sequence: u64, bytes: usize) {
        let start = self.layout.part_pages(part).start * PAGE;
        self.bytes.borrow_mut()[start..start + bytes].fill(0x5a);
        let bytes = bytes as u64;
        let digest = self.digest(part, bytes).expect("it is in its pages");
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
        let bytes = self.bytes.borrow();
        Line::read_from_bytes(&bytes[start..start + LINE_BYTES]).expect("a line")
    }

    fn store(&self, place: Place, line: &Line) {
        let start = self.layout.line_offset(place);
        self.bytes.borrow_mut()[start..start + LINE_BYTES].copy_from_slice(line.as_bytes());
    }

    fn write_back(&self, _place: Place) {}

    fn digest(&self, part: usize, bytes: u64) -> Option<u64> {
        let start = self.layout.part_pages(part).start * PAGE;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        Some(checksum::of_bytes(self.bytes.borrow().get(start..end)?))
    }
}

impl StopMachine for FakeRecord {
    fn record(&self) -> &impl CutMemory {
        self
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

    fn quiet(&self) -> Result<(), CutReason> {
        Ok(())
    }

    fn ticks(&self) -> u64 {
        self.ticks
    }

    fn flush(&self) {}
}
