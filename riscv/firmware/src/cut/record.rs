//! Where the record of a cut is: in the firmware's second range of memory, with a stack for
//! each hart behind it.

use core::slice;

use poorwill_arch::{cache, fence};
use poorwill_devicetree::Machine;
use poorwill_image::Digest;
use poorwill_memory::{PAGE_BYTES, Page, PhysRange};
use poorwill_sleep::cut::{
    CutMemory, CutReason, LINE_BYTES, Layout, Line, PartEntry, Place, Proof,
};
use spin::Once;

use super::key;
use crate::hart::{Hart, this_hart};
use crate::platform::platform;

/// Pages of the stack on which a hart writes its part, and reads it: a context is large, and
/// is moved about. Tests see how much of it is left.
const STACK_PAGES: usize = 10;

/// The page by which devices are given commands, behind the stacks.
const SCRATCH_PAGES: usize = 1;

/// The record's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    base: usize,
    layout: Layout,
}

static RECORD: Once<Record> = Once::new();

/// Pages that cuts need: none on a machine without a power-fail line.
pub(crate) fn pages_needed(machine: &Machine) -> usize {
    let harts = machine.harts.len();
    machine.power_fail.map_or(0, |_| pages_with(harts))
}

/// The same on one with a line, and so many harts.
pub(crate) const fn pages_with(harts: usize) -> usize {
    let record = Layout::new(harts, Layout::TREE_PAGES);
    record.pages() + harts * STACK_PAGES + SCRATCH_PAGES
}

/// The same in bytes, of which the sum is rounded up to pages: on every such machine, and for
/// each hart.
pub(crate) const BYTES: (usize, usize) = {
    let [none, one] = [
        Layout::new(0, Layout::TREE_PAGES).bytes(),
        Layout::new(1, Layout::TREE_PAGES).bytes(),
    ];
    let page = size_of::<Page>();
    (none + SCRATCH_PAGES * page, one - none + STACK_PAGES * page)
};

/// Gives cuts their memory, once: [`pages_needed`] of it. What is in it is the record of the
/// last one.
pub(crate) fn take_memory(pages: &'static mut [Page], harts: usize) {
    if !pages.is_empty() {
        RECORD.call_once(|| Record {
            base: pages.as_mut_ptr().expose_provenance(),
            layout: Layout::new(harts, Layout::TREE_PAGES),
        });
    }
}

/// The record, on a machine that has one.
pub(super) fn record() -> Option<Record> {
    RECORD.get().copied()
}

impl Record {
    fn at<T>(self, offset: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.base + offset)
    }

    /// The pages of a part.
    pub(super) fn part(&self, part: usize) -> &'static [Page] {
        let pages = self.layout.part_pages(part);
        let first = self.at(pages.start * PAGE_BYTES as usize);
        // SAFETY: the record's own memory; its parts do not overlap. Whoever writes one has
        // done so before anybody reads it.
        unsafe { slice::from_raw_parts(first, pages.len()) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes that part meanwhile.
    pub(super) unsafe fn part_mut(&self, part: usize) -> &'static mut [Page] {
        let pages = self.layout.part_pages(part);
        let first = self.at(pages.start * PAGE_BYTES as usize);
        // SAFETY: as above, and as the caller says.
        unsafe { slice::from_raw_parts_mut(first, pages.len()) }
    }

    /// A part that was entered, and its bytes; `None` for one that was not.
    pub(super) fn entered(&self, part: usize) -> Option<(&'static [Page], u64)> {
        let (_, PartEntry { bytes, .. }) = self.line(Place::Part(part)).read_part()?;
        Some((self.part(part), bytes))
    }

    /// Says what a part holds, once it is written.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`].
    pub(super) fn enter(&self, part: usize, sequence: u64, bytes: u64) -> Result<(), CutReason> {
        let digest = self.with_proof(|proof| self.digest(part, bytes, proof))?;
        let digest = digest.unwrap_or_default();
        let entry = Line::part(sequence, PartEntry { bytes, digest });
        self.store(Place::Part(part), &entry);
        Ok(())
    }

    /// The page by which devices are given commands.
    pub(super) fn scratch(&self) -> PhysRange {
        // Behind the last hart's.
        let stacks = self.layout.parts() - Layout::hart(0);
        PhysRange::new(self.stack(stacks).start, PAGE_BYTES)
    }

    /// Runs `job` with what proves the next cut, on the calling hart's stack here.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`].
    pub(super) fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
        key::with(self.stack(place_of(&this_hart())), job)
    }

    /// The stack of the hart with that place in the list.
    pub(super) fn stack(&self, place: usize) -> PhysRange {
        let first = self.layout.pages() + place * STACK_PAGES;
        PhysRange::new(
            self.base as u64 + first as u64 * PAGE_BYTES,
            STACK_PAGES as u64 * PAGE_BYTES,
        )
    }
}

impl CutMemory for Record {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn line(&self, place: Place) -> Line {
        let line = self.at::<Line>(self.layout.line_offset(place));
        // SAFETY: within the record; any bits are a line, and one that is written meanwhile
        // is known by its checksum.
        unsafe { line.read_volatile() }
    }

    fn store(&self, place: Place, line: &Line) {
        let to = self.at::<Line>(self.layout.line_offset(place));
        // SAFETY: within the record; each line is one hart's to write.
        unsafe { to.write_volatile(*line) }
    }

    fn write_back(&self, place: Place) {
        let start = self.base as u64 + self.layout.line_offset(place) as u64;
        let bytes = PhysRange::new(start, LINE_BYTES as u64);
        match (&platform().power_fail, platform().cache_block) {
            (Some(line), _) => line.write_back(bytes),
            // Nothing is cut here; what another firmware has cut is given up as well as it can be.
            (None, Some(block)) => {
                fence::everything();
                cache::write_back(bytes, block);
                fence::everything();
            }
            (None, None) => fence::everything(),
        }
    }

    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest> {
        proof.of_part(part, self.part(part), bytes)
    }
}

/// The place of a hart in the list of harts, by which the record has its part.
pub(super) fn place_of(hart: &Hart) -> usize {
    let all = crate::hart::all();
    let place = all.iter().position(|other| core::ptr::eq(other, hart));
    place.expect("every hart is in the list")
}
