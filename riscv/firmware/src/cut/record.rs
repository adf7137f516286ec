//! Where the record of a cut is: in the firmware's second range of memory. A stack for each hart
//! follows it.

use core::slice;

use poorwill_arch::{cache, fence};
use poorwill_devicetree::{MAX_HARTS, Machine};
use poorwill_image::Digest;
use poorwill_memory::{PAGE_BYTES, Page, PhysRange};
use poorwill_sleep::cut::{
    CutMemory, CutReason, LINE_BYTES, Layout, Line, PartEntry, Place, Proof,
};
use spin::MutexGuard;

use super::{STATE, key};
use crate::entry::stack;
use crate::hart::{Hart, this_hart};
use crate::platform::{platform, power_fail};

/// Pages of the stack on which a hart writes and reads its part: a context is large, and moves
/// copy it. Tests measure how much of the stack is left.
const STACK_PAGES: usize = 10;

/// The page through which devices are given commands, after the stacks.
const SCRATCH_PAGES: usize = 1;

/// Parts of the record of the largest machine.
pub(super) const MAX_PARTS: usize = Layout::hart(MAX_HARTS);

/// The record's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    base: usize,
    layout: Layout,
}

/// A part of the record. No other hart reads or writes it before this is dropped.
pub(super) struct Part {
    record: Record,
    number: usize,
    _lock: MutexGuard<'static, ()>,
}

/// Pages that cuts need: none on a machine without a power-fail line.
pub(crate) fn pages_needed(machine: &Machine) -> usize {
    let harts = machine.harts.len();
    machine.power_fail.map_or(0, |_| pages_with(harts))
}

/// Pages that cuts need on a machine with a line and `harts` harts.
pub(crate) const fn pages_with(harts: usize) -> usize {
    let record = Layout::new(harts, Layout::TREE_PAGES);
    record.pages() + harts * STACK_PAGES + SCRATCH_PAGES
}

/// The same in bytes: of the machine, and of each hart. The sum is rounded up to pages.
pub(crate) const BYTES: (usize, usize) = {
    let [none, one] = [
        Layout::new(0, Layout::TREE_PAGES).bytes(),
        Layout::new(1, Layout::TREE_PAGES).bytes(),
    ];
    let page = size_of::<Page>();
    (none + SCRATCH_PAGES * page, one - none + STACK_PAGES * page)
};

/// Gives cuts their memory, once: [`pages_needed`] pages, which hold the record of the last cut.
pub(crate) fn take_memory(pages: &'static mut [Page], harts: usize) {
    if !pages.is_empty() {
        STATE.record.call_once(|| Record {
            base: pages.as_mut_ptr().expose_provenance(),
            layout: Layout::new(harts, Layout::TREE_PAGES),
        });
    }
}

/// The record, on a machine that has one.
pub(super) fn record() -> Option<Record> {
    STATE.record.get().copied()
}

impl Record {
    fn at<T>(self, offset: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.base + offset)
    }

    /// Takes the part with that number. Waits while another hart has it.
    pub(super) fn part(self, number: usize) -> Part {
        Part {
            record: self,
            number,
            _lock: STATE.parts[number].lock(),
        }
    }

    /// The page through which devices are given commands.
    pub(super) fn scratch(self) -> PhysRange {
        // After the stack of the last hart.
        let stacks = self.layout.parts() - Layout::hart(0);
        PhysRange::new(self.stack(stacks).start, PAGE_BYTES)
    }

    /// Runs `job` on the calling hart's stack in the record, with the proof of the next cut.
    /// The hart is on the upper part of that stack.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`].
    pub(super) fn with_proof<R>(self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
        key::with(self.stack(place_of(&this_hart())), job)
    }

    /// Runs `job` on the calling hart's stack in the record.
    pub(super) fn on_stack<R>(self, job: impl FnOnce() -> R) -> R {
        let stack = self.stack(place_of(&this_hart()));
        let here = (&raw const stack).addr() as u64;
        assert!(!stack.contains(here), "the hart is on that stack already");
        // SAFETY: the stack is the calling hart's, and the hart is not on it.
        unsafe { stack::on(stack.end as usize, job) }
    }

    /// The stack of the hart with that place in the list of harts.
    fn stack(self, place: usize) -> PhysRange {
        let first = self.layout.pages() + place * STACK_PAGES;
        PhysRange::new(
            self.base as u64 + first as u64 * PAGE_BYTES,
            STACK_PAGES as u64 * PAGE_BYTES,
        )
    }
}

impl Part {
    fn first(&self) -> (*mut Page, usize) {
        let pages = self.record.layout.part_pages(self.number);
        let first = self.record.at(pages.start * PAGE_BYTES as usize);
        (first, pages.len())
    }

    /// The pages of the part.
    pub(super) fn pages(&self) -> &[Page] {
        let (first, pages) = self.first();
        // SAFETY: the record's own memory. Parts do not overlap, and this part is locked.
        unsafe { slice::from_raw_parts(first, pages) }
    }

    /// The pages of the part, to write them.
    pub(super) fn pages_mut(&mut self) -> &mut [Page] {
        let (first, pages) = self.first();
        // SAFETY: as in `pages`.
        unsafe { slice::from_raw_parts_mut(first, pages) }
    }

    /// Bytes of the contents, by the part's entry.
    ///
    /// # Errors
    ///
    /// [`CutReason::Damaged`]: the part was not entered.
    pub(super) fn bytes(&self) -> Result<u64, CutReason> {
        let entry = self.record.line(Place::Part(self.number)).read_part();
        entry.map_or(Err(CutReason::Damaged), |(_, entry)| Ok(entry.bytes))
    }

    /// Enters the part once it is written: `bytes` bytes, for the cut `sequence`.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`].
    pub(super) fn enter(&self, sequence: u64, bytes: u64) -> Result<(), CutReason> {
        let digest =
            (self.record).with_proof(|proof| proof.of_part(self.number, self.pages(), bytes))?;
        let digest = digest.unwrap_or_default();
        let entry = Line::part(sequence, PartEntry { bytes, digest });
        self.record.store(Place::Part(self.number), &entry);
        Ok(())
    }
}

impl CutMemory for Record {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn line(&self, place: Place) -> Line {
        let line = self.at::<Line>(self.layout.line_offset(place));
        // SAFETY: within the record. Any bits are a line; a checksum tells one that another hart
        // is writing.
        unsafe { line.read_volatile() }
    }

    fn store(&self, place: Place, line: &Line) {
        let to = self.at::<Line>(self.layout.line_offset(place));
        // SAFETY: within the record; one hart writes each line.
        unsafe { to.write_volatile(*line) }
    }

    fn write_back(&self, place: Place) {
        let start = self.base as u64 + self.layout.line_offset(place) as u64;
        let bytes = PhysRange::new(start, LINE_BYTES as u64);
        match (power_fail::line(), platform().cache_block) {
            (Some(line), _) => line.write_back(bytes),
            // This firmware cuts nothing, but gives up the cut of another one.
            (None, Some(block)) => {
                fence::everything();
                cache::write_back(bytes, block);
                fence::everything();
            }
            (None, None) => fence::everything(),
        }
    }

    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest> {
        proof.of_part(part, self.part(part).pages(), bytes)
    }
}

/// The place of a hart in the list of harts, which numbers its part.
pub(super) fn place_of(hart: &Hart) -> usize {
    let all = crate::hart::all();
    let place = all.iter().position(|other| core::ptr::eq(other, hart));
    place.expect("every hart is in the list")
}
