//! A machine with a sleep area that sleeps and wakes as the firmware does.

#![allow(dead_code, reason = "each test takes what it needs")]

use poorwill_image::{
    LoadError, MachineIdentity, OpenError, SaveError, SaveRequest, Workspace, load, open, save,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_medium::{Medium, MediumError, Window};
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use poorwill_store::{Area, CommitError, CommittedImage, Failure, NoImage, StoreError};

pub(crate) const MIB: u64 = 1 << 20;

/// Where the area lies on the disk: at no page, as partitions may.
pub(crate) const START: u64 = 34 * 512;

pub(crate) const HERE: MachineIdentity = MachineIdentity {
    memory: 1,
    harts: 2,
    isa: 3,
    device_tree: 4,
};

/// Why a machine did not go to sleep.
#[derive(Debug)]
pub(crate) enum NoSleep {
    Store(StoreError),
    Save(SaveError),
    Commit(CommitError),
}

/// What a power-on came to.
#[derive(Debug)]
pub(crate) enum Boot {
    /// The memory is the sleeper's again.
    Woken,
    /// There was nothing to wake.
    Cold(NoImage),
    /// The image could not be opened; nothing was consumed.
    Refused(OpenError),
    /// The image was consumed, and could not be loaded.
    Failed(LoadError),
    /// The area or its medium failed before anything was consumed for certain.
    Store(StoreError),
}

pub(crate) struct Machine {
    pub(crate) memory: FakeMemory,
    workspace: Vec<Page>,
    scratch: Page,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let mut memory = FakeMemory::new(&[100, 250]);
        let pages = to_usize(Workspace::pages_needed(memory.os().pages()));
        Machine {
            memory,
            workspace: vec![Page::ZERO; pages],
            scratch: Page::ZERO,
        }
    }

    /// Fills most of memory with what only this seed gives.
    pub(crate) fn run(&mut self, seed: u64) {
        for index in 0..self.memory.os().pages() {
            let mut page = Page::ZERO;
            if !(index + seed).is_multiple_of(7) {
                page.0[to_usize(index)] = index << 32 | seed;
            }
            self.memory.set(index, &page);
        }
    }

    pub(crate) fn sleep(&mut self, disk: &mut FakeMedium) -> Result<(), NoSleep> {
        self.sleep_in(disk, 7 * MIB)
    }

    /// Sleeps in an area of another length.
    pub(crate) fn sleep_in(&mut self, disk: &mut FakeMedium, bytes: u64) -> Result<(), NoSleep> {
        let window = Window::new(disk, START, bytes).unwrap();
        let mut area = Area::open(window, &mut self.scratch).map_err(NoSleep::Store)?;
        let mut slot = area.begin().map_err(NoSleep::Store)?;
        let os = self.memory.os();
        let mut workspace = Workspace::new(&mut self.workspace, os.pages()).unwrap();
        let request = SaveRequest {
            identity: HERE,
            generation: slot.generation(),
            saved_at_ns: 0,
            state_bytes: 0,
        };
        let mut window = slot.medium().unwrap();
        let saved = save(&mut window, os, &request, &mut workspace, &mut |_| ());
        let saved = saved.map_err(NoSleep::Save)?;
        slot.commit(&saved).map(drop).map_err(NoSleep::Commit)
    }

    /// A power-on. Before a cold boot, all images are given up, as far as the
    /// medium does.
    pub(crate) fn boot(&mut self, disk: &mut FakeMedium) -> Boot {
        let mut area = match area(disk, &mut self.scratch) {
            Ok(area) => area,
            Err(error) => return Boot::Store(error),
        };
        let boot = match area.newest() {
            Err(reason) => Boot::Cold(reason),
            Ok(image) => wake(&mut area, &image, &mut self.memory, &mut self.workspace),
        };
        if !matches!(boot, Boot::Woken) {
            let _ = area.discard_all(poorwill_store::DiscardReason::ColdBoot);
        }
        boot
    }
}

fn wake<M: Medium>(
    area: &mut Area<'_, M>,
    image: &CommittedImage,
    memory: &mut FakeMemory,
    workspace: &mut [Page],
) -> Boot {
    let os = memory.os();
    let workspace = Workspace::new(workspace, os.pages()).unwrap();
    let mut slot = area.slot(image.slot()).unwrap();
    let opened = open(
        &mut slot,
        image.header_checksum(),
        &HERE,
        os.pages(),
        workspace,
    );
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => return Boot::Refused(error),
    };
    let consumed = match area.consume(image) {
        Ok(consumed) => consumed,
        Err(error) => return Boot::Store(error),
    };
    let mut slot = area.slot(consumed.slot()).unwrap();
    match load(&mut slot, &opened, os, &mut |_| ()) {
        Ok(_) => Boot::Woken,
        Err(error) => {
            let _ = area.record_failure(consumed, failure(error));
            Boot::Failed(error)
        }
    }
}

fn failure(error: LoadError) -> Failure {
    match error {
        LoadError::DamagedPiece { piece } => Failure::DamagedPiece(piece),
        LoadError::Medium(MediumError::Device { status, .. }) => Failure::Device(status),
        LoadError::Medium(MediumError::TimedOut(ms)) => Failure::TimedOut(ms),
        _ => Failure::Other(1, 0),
    }
}

/// A disk with room for an area of 7 MiB.
pub(crate) fn disk() -> FakeMedium {
    FakeMedium::new(START + 7 * MIB + PAGE_BYTES).with_limits(48, 3)
}

pub(crate) fn area<'a>(
    disk: &'a mut FakeMedium,
    scratch: &'a mut Page,
) -> Result<Area<'a, FakeMedium>, StoreError> {
    Area::open(Window::new(disk, START, 7 * MIB).unwrap(), scratch)
}

/// Byte of the disk at which the record of a slot begins.
pub(crate) fn record_at(slot: u64) -> u64 {
    START + (1 + slot) * PAGE_BYTES
}
