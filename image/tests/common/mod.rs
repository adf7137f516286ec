//! A machine that can be saved and loaded.

#![allow(dead_code, reason = "each test takes what it needs")]

use poorwill_image::{
    LoadError, Loaded, MachineIdentity, OpenError, SaveError, SaveRequest, Saved, StateWriter,
    Workspace, load, open, save,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{Page, to_usize};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) const HERE: MachineIdentity = MachineIdentity {
    memory: 0x1111_1111_1111_1111,
    harts: 0x2222_2222_2222_2222,
    isa: 0x3333_3333_3333_3333,
    device_tree: 0x4444_4444_4444_4444,
};

/// The state that every test image carries: two records.
pub(crate) const WORDS: [u64; 3] = [0x8000_2000, 1, u64::MAX];
pub(crate) const NAME: &[u8] = b"plic";

pub(crate) struct Machine {
    pub(crate) memory: FakeMemory,
    pub(crate) workspace: Vec<Page>,
}

impl Machine {
    pub(crate) fn new(ranges: &[u64]) -> Self {
        let mut memory = FakeMemory::new(ranges);
        let pages = to_usize(Workspace::pages_needed(memory.os().pages()));
        // Full of rubbish, which must not matter.
        let workspace = vec![Page([0xdead_beef; 512]); pages];
        Machine { memory, workspace }
    }

    /// A machine with something in the pages for which `used` says so.
    pub(crate) fn filled(ranges: &[u64], used: impl FnMut(u64) -> bool) -> Self {
        let mut machine = Machine::new(ranges);
        machine.fill(1, used);
        machine
    }

    pub(crate) fn fill(&mut self, seed: u64, mut used: impl FnMut(u64) -> bool) {
        for index in 0..self.memory.os().pages() {
            let page = if used(index) {
                pattern(index, seed)
            } else {
                Page::ZERO
            };
            self.memory.set(index, &page);
        }
    }

    pub(crate) fn save(&mut self, medium: &mut FakeMedium) -> Result<Saved, SaveError> {
        let os = self.memory.os();
        let mut workspace = Workspace::new(&mut self.workspace, os.pages()).unwrap();
        let mut state = StateWriter::new(workspace.state);
        state.record(7, 1, &WORDS).unwrap();
        state.record(9, 2, NAME).unwrap();
        let request = SaveRequest {
            identity: HERE,
            generation: 3,
            saved_at_ns: 1_700_000_000_000_000_000,
            state_bytes: state.finish(),
        };
        save(medium, os, &request, &mut workspace, &mut |_| ())
    }

    /// Opens the image and, if it can be opened, loads it.
    pub(crate) fn load(
        &mut self,
        medium: &mut FakeMedium,
        committed: u64,
    ) -> Result<Result<Loaded, LoadError>, OpenError> {
        let os = self.memory.os();
        let workspace = Workspace::new(&mut self.workspace, os.pages()).unwrap();
        let opened = open(medium, committed, &HERE, os.pages(), workspace)?;
        Ok(load(medium, &opened, os, &mut |_| ()))
    }

    pub(crate) fn open(
        &mut self,
        medium: &mut FakeMedium,
        committed: u64,
    ) -> Result<(), OpenError> {
        let pages = self.memory.os().pages();
        let workspace = Workspace::new(&mut self.workspace, pages).unwrap();
        open(medium, committed, &HERE, pages, workspace).map(drop)
    }
}

/// A page that is like no other, and mostly zeros: what hashes overlook first.
pub(crate) fn pattern(index: u64, seed: u64) -> Page {
    let mut page = Page::ZERO;
    let word = to_usize(index.wrapping_mul(31).wrapping_add(seed) % 512);
    page.0[word] = (index + 1).wrapping_mul(seed | 1);
    page
}
