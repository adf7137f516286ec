//! The memory for the record of a cut, in the firmware's second range. A stack for each hart
//! follows the record.

use core::slice;

use poorwill_arch::{cache, fence};
use poorwill_devicetree::{MAX_HARTS, Machine};
use poorwill_image::Digest;
use poorwill_memory::{PAGE_BYTES, Page, PhysRange};
use poorwill_sleep::cut::{
    CutMemory, CutReason, LINE_BYTES, Layout, Line, PartEntry, Place, Proof,
};
use spin::{Mutex, MutexGuard, Once};

use super::key;
use crate::entry::stack;
use crate::hart::{place_of, this_hart};
use crate::platform::{platform, power_fail};

/// Pages of the stack on which a hart writes and reads its part. A context is large, and each move
/// copies it. Tests measure the unused part of the stack.
const STACK_PAGES: usize = 10;

/// The page for commands to devices, after the stacks.
const SCRATCH_PAGES: usize = 1;

/// Number of parts of the record on the largest machine.
const MAX_PARTS: usize = Layout::hart(MAX_HARTS);

/// The record, on a machine with a power-fail line, and a lock for each of its parts.
struct LockedRecord {
    record: Once<Record>,
    parts: [Mutex<()>; MAX_PARTS],
}

static RECORD: LockedRecord = LockedRecord {
    record: Once::new(),
    parts: [const { Mutex::new(()) }; MAX_PARTS],
};

/// The record's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    base: usize,
    layout: Layout,
}

/// A part of the record. No other hart can read or write it until this value is dropped.
pub(super) struct Part {
    record: Record,
    number: usize,
    _lock: MutexGuard<'static, ()>,
}

/// Number of pages for cuts; 0 on a machine without a power-fail line.
pub(crate) fn pages_needed(machine: &Machine) -> usize {
    let harts = machine.harts.len();
    machine.power_fail.map_or(0, |_| pages_with(harts))
}

/// Number of pages for cuts on a machine with a line and `harts` harts.
pub(crate) const fn pages_with(harts: usize) -> usize {
    let record = Layout::new(harts, Layout::TREE_PAGES);
    record.pages() + harts * STACK_PAGES + SCRATCH_PAGES
}

/// Bytes for cuts: those of the machine, and those of each hart. The sum is rounded up to pages.
pub(crate) const BYTES: (usize, usize) = {
    let [none, one] = [
        Layout::new(0, Layout::TREE_PAGES).bytes(),
        Layout::new(1, Layout::TREE_PAGES).bytes(),
    ];
    let page = size_of::<Page>();
    (none + SCRATCH_PAGES * page, one - none + STACK_PAGES * page)
};

/// Sets the memory for cuts, once: [`pages_needed`] pages, which hold the record of the last cut.
pub(crate) fn take_memory(pages: &'static mut [Page], harts: usize) {
    if !pages.is_empty() {
        RECORD.record.call_once(|| Record {
            base: pages.as_mut_ptr().expose_provenance(),
            layout: Layout::new(harts, Layout::TREE_PAGES),
        });
    }
}

/// The record; `None` on a machine without one.
pub(super) fn record() -> Option<Record> {
    RECORD.record.get().copied()
}

impl Record {
    /// Its address.
    pub(super) fn base(self) -> u64 {
        self.base as u64
    }

    fn at<T>(self, offset: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.base + offset)
    }

    /// Locks the part with this number. Waits while another hart has it.
    pub(super) fn part(self, number: usize) -> Part {
        Part {
            record: self,
            number,
            _lock: RECORD.parts[number].lock(),
        }
    }

    /// The page for commands to devices.
    pub(super) fn scratch(self) -> PhysRange {
        // It follows the stack of the last hart.
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
        assert!(
            !stack.contains(here),
            "the hart is already on its stack in the record"
        );
        // SAFETY: the stack is the calling hart's, and the hart is not on it.
        unsafe { stack::on(stack.end as usize, job) }
    }

    /// The stack of the hart with this index.
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

    /// The pages of the part, for writing.
    pub(super) fn pages_mut(&mut self) -> &mut [Page] {
        let (first, pages) = self.first();
        // SAFETY: as in `pages`.
        unsafe { slice::from_raw_parts_mut(first, pages) }
    }

    /// Number of bytes of the contents, from the part's entry.
    ///
    /// # Errors
    ///
    /// [`CutReason::Damaged`]: the part was not entered.
    pub(super) fn bytes(&self) -> Result<u64, CutReason> {
        let entry = self.record.line(Place::Part(self.number)).read_part();
        entry.map_or(Err(CutReason::Damaged), |(_, entry)| Ok(entry.bytes))
    }

    /// The digest of the part's first `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`].
    pub(super) fn digest(&self, bytes: u64) -> Result<Digest, CutReason> {
        let digest =
            (self.record).with_proof(|proof| proof.of_part(self.number, self.pages(), bytes))?;
        Ok(digest.unwrap_or_default())
    }

    /// Makes the part's entry: the part has `bytes` bytes for the cut `sequence`.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`].
    pub(super) fn enter(&self, sequence: u64, bytes: u64) -> Result<(), CutReason> {
        let digest = self.digest(bytes)?;
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
        // SAFETY: the line lies within the record. Any bits are a line, and the line's checksum
        // shows whether it is complete.
        unsafe { line.read_volatile() }
    }

    fn store(&self, place: Place, line: &Line) {
        let to = self.at::<Line>(self.layout.line_offset(place));
        // SAFETY: the line lies within the record, and only one hart writes it.
        unsafe { to.write_volatile(*line) }
    }

    fn write_back(&self, place: Place) {
        let start = self.base as u64 + self.layout.line_offset(place) as u64;
        let bytes = PhysRange::new(start, LINE_BYTES as u64);
        match (power_fail::line(), platform().cache_block) {
            (Some(line), _) => line.caches().write_back(bytes),
            // This firmware makes no cuts here, but it may discard the cut of another firmware.
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
