//! A machine that can be saved and loaded.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::ops::Range;

use poorwill_image::{
    Expected, Here, ImageKind, LoadError, Loaded, NoWorkers, OpenError, Salt, SaveError,
    SaveRequest, Saved, Seal, SealingKey, StateWriter, Trust, Workers, Workspace, give_back, load,
    open, save,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{FreeContents, Page, ROW_WORDS, Run, StridedFill, to_usize};
use poorwill_memory::{MachineIdentity, fake::FakeMemory};

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

/// Threads in the place of harts, beside the calling one.
pub(crate) struct Threads(pub(crate) usize);

impl Workers for Threads {
    fn run(&self, coordinate: &mut dyn FnMut(), help: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..self.0 {
                scope.spawn(help);
            }
            coordinate();
        });
    }

    fn idle(&self) {
        std::thread::yield_now();
    }
}

pub(crate) struct Machine {
    pub(crate) memory: FakeMemory,
    pub(crate) workspace: Vec<Page>,
    /// What it seals its images with, if it does.
    pub(crate) key: Option<SealingKey>,
    pub(crate) workers: Box<dyn Workers>,
    /// Which pages its OS has free, if that is known.
    pub(crate) free: Option<Free>,
    /// Its memory is clear when the power comes on.
    pub(crate) is_clear: bool,
}

/// Runs of free pages, and what the OS expects in them.
#[derive(Clone, Debug)]
pub(crate) struct Free(pub(crate) Vec<Run>, pub(crate) FreeContents);

/// Generation of every test image.
pub(crate) const GENERATION: u64 = 3;

/// The image whose header has this checksum.
pub(crate) fn committed(header_checksum: u64) -> Expected {
    Expected {
        header_checksum,
        generation: GENERATION,
        kind: ImageKind::Once,
    }
}

pub(crate) fn key(byte: u8) -> SealingKey {
    SealingKey::new([byte; 32])
}

/// A machine with this identity that trusts what the key says.
pub(crate) fn here(identity: MachineIdentity, os_pages: u64, key: Option<&SealingKey>) -> Here<'_> {
    Here {
        identity,
        os_pages,
        trust: key.map_or(Trust::Plain, Trust::Sealed),
        is_clear: false,
    }
}

impl Machine {
    pub(crate) fn new(ranges: &[u64]) -> Self {
        let mut memory = FakeMemory::new(ranges);
        let pages = to_usize(Workspace::pages_needed(memory.os().pages()));
        // Full of rubbish, which must not matter.
        let workspace = vec![Page([0xdead_beef; 512]); pages];
        Machine {
            memory,
            workspace,
            key: None,
            workers: Box::new(NoWorkers),
            free: None,
            is_clear: false,
        }
    }

    /// The same machine, with a key.
    pub(crate) fn sealing(mut self) -> Self {
        self.key = Some(key(7));
        self
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

    /// Lays a table into `pages`: a strided fill, all of it.
    pub(crate) fn fill_table(&mut self, pages: Range<u64>) {
        let table = StridedFill {
            row: [1, 0, 3, 4, 5, 6, 7, !0],
            step: [0, 64, 64, 0, 0, 0, 1 << 60, 0],
        };
        for (more, index) in (0..).zip(pages) {
            self.memory.set(index, &page_of(&table.after(more)));
        }
    }

    pub(crate) fn save(&mut self, medium: &mut FakeMedium) -> Result<Saved, SaveError> {
        let os = self.memory.os();
        let mut workspace = Workspace::new(&mut self.workspace, os.pages()).unwrap();
        if let Some(Free(runs, contents)) = &self.free {
            let found = workspace.leave_out(os, &*self.workers, |free| {
                runs.iter()
                    .flat_map(|run| run.first..run.first + run.pages)
                    .for_each(|index| free.insert(index));
                (*contents, ())
            });
            found.unwrap();
        }
        let mut state = StateWriter::new(workspace.state);
        state.section(7, 0, 1, &WORDS).unwrap();
        state.section(9, 0, 2, NAME).unwrap();
        let request = SaveRequest {
            identity: HERE,
            generation: GENERATION,
            kind: ImageKind::Once,
            saved_at_ns: 1_700_000_000_000_000_000,
            state_bytes: state.finish(),
            seal: self.key.as_ref().map(|key| Seal {
                key,
                salt: Salt([5; 8]),
            }),
        };
        let saved = save(
            medium,
            os,
            &request,
            &mut workspace,
            &*self.workers,
            &mut |_| (),
        );
        // So that the tests see memory as an OS would that goes on.
        if saved.is_ok() {
            give_back(&request, os, &mut workspace, &*self.workers);
        }
        saved
    }

    /// Opens the image and, if it can be opened, loads it.
    pub(crate) fn load(
        &mut self,
        medium: &mut FakeMedium,
        committed: u64,
    ) -> Result<Result<Loaded, LoadError>, OpenError> {
        let os = self.memory.os();
        let workspace = Workspace::new(&mut self.workspace, os.pages()).unwrap();
        let here = Here {
            is_clear: self.is_clear,
            ..here(HERE, os.pages(), self.key.as_ref())
        };
        let opened = open(medium, self::committed(committed), &here, workspace)?;
        Ok(load(medium, &opened, os, &*self.workers, &mut |_| ()))
    }

    pub(crate) fn open(
        &mut self,
        medium: &mut FakeMedium,
        committed: u64,
    ) -> Result<(), OpenError> {
        let pages = self.memory.os().pages();
        let workspace = Workspace::new(&mut self.workspace, pages).unwrap();
        let here = here(HERE, pages, self.key.as_ref());
        open(medium, self::committed(committed), &here, workspace).map(drop)
    }
}

/// The page that a strided fill makes.
pub(crate) fn page_of(strided_fill: &StridedFill) -> Page {
    let words = (0..512).map(|word| {
        let (row, word) = (word / ROW_WORDS, word % ROW_WORDS);
        strided_fill.row[word].wrapping_add(strided_fill.step[word].wrapping_mul(row as u64))
    });
    Page(words.collect::<Vec<u64>>().try_into().unwrap())
}

/// A page that is like no other, and mostly zeros: what hashes overlook first.
pub(crate) fn pattern(index: u64, seed: u64) -> Page {
    let mut page = Page::ZERO;
    let word = to_usize(index.wrapping_mul(31).wrapping_add(seed) % 512);
    page.0[word] = (index + 1).wrapping_mul(seed | 1);
    page
}
