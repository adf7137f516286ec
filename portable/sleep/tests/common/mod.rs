//! A machine with a sleep area that sleeps and wakes as the firmware does.

#![allow(dead_code, reason = "each test takes what it needs")]

use poorwill_image::OpenError;
use poorwill_medium::fake::FakeMedium;
use poorwill_medium::{Medium, Window};
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{EntryPoint, PAGE_BYTES, Page, to_usize};
use poorwill_sleep::fake::{FakeMachine, FakeWork};
use poorwill_sleep::{
    AreaError, Cleared, ColdBoot, LoadMark, NoSleep, NoWake, Refusal, Slept, Woke, discard_images,
};
use poorwill_store::fake::TABLE_BYTES;
use poorwill_store::{Area, Configuration, Failure, Name, NoImage, RecordFormat, StoreError};
use poorwill_vault::fake::FakeCounter;
use poorwill_vault::{Key, KeyVault};

pub(crate) const MIB: u64 = 1 << 20;

/// Where the area lies on the disk: at no page, as partitions may.
pub(crate) const START: u64 = TABLE_BYTES;

/// Where the OS goes on.
const VECTOR: EntryPoint = EntryPoint {
    address: 0,
    argument: 0,
};

/// Why a machine did not go to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAsleep {
    /// It goes on.
    Refused(NoSleep),
    /// It is switched off, and nobody knows what is there.
    InDoubt(StoreError),
    /// It rested, or was told to.
    Awake,
}

/// What a power-on came to.
#[derive(Debug)]
pub(crate) enum Boot {
    /// The memory is the sleeper's again.
    Woken,
    /// There was nothing to wake.
    Cold(NoImage),
    /// The last wake had failed.
    LastWakeFailed(Failure),
    /// The snapshot has failed too often.
    Disabled(u32, Option<Failure>),
    /// The image could not be opened; nothing was consumed.
    Refused(OpenError),
    /// The image was consumed, and could not be loaded.
    Failed(Failure),
    /// What an unfinished load had left in memory is cleared.
    Cleared,
    /// The area or its medium failed before anything was consumed for certain.
    Store(StoreError),
}

pub(crate) struct Machine {
    pub(crate) memory: FakeMemory,
    /// What it seals its images with, if it does.
    pub(crate) vault: Option<FakeCounter>,
    /// The load mark that the last start has left.
    pub(crate) load_mark: LoadMark,
    /// What it was set to since.
    pub(crate) load_marks: Vec<LoadMark>,
    pub(crate) work: FakeWork,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let mut memory = FakeMemory::new(&[100, 250]);
        let work = FakeWork::new(memory.os().pages());
        Machine {
            memory,
            vault: None,
            load_mark: LoadMark::Clear,
            load_marks: Vec::new(),
            work,
        }
    }

    /// A machine that seals its images.
    pub(crate) fn sealing() -> Self {
        Machine {
            vault: Some(FakeCounter::new(0).with_key(Key::new(&[7; 32]))),
            ..Machine::new()
        }
    }

    /// One of each kind.
    pub(crate) fn both() -> [Machine; 2] {
        [Machine::new(), Machine::sealing()]
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

    pub(crate) fn sleep(&mut self, disk: &mut dyn Medium) -> Result<(), NotAsleep> {
        self.sleep_in(disk, 7 * MIB)
    }

    /// Sleeps in an area of another length.
    pub(crate) fn sleep_in(&mut self, disk: &mut dyn Medium, bytes: u64) -> Result<(), NotAsleep> {
        let vault = self.vault.as_mut().map(|vault| vault as &mut dyn KeyVault);
        let machine = FakeMachine::new(disk, START, bytes, vault);
        match machine.sleep(self.memory.os(), VECTOR, &mut self.work.lend()) {
            Slept::Asleep(_) => Ok(()),
            Slept::Refused(error) => Err(NotAsleep::Refused(error)),
            Slept::InDoubt(error) => Err(NotAsleep::InDoubt(error)),
            Slept::Awake => Err(NotAsleep::Awake),
            Slept::Cut(_) => unreachable!("its RAM is not persistent"),
            Slept::PowerFails { .. } => panic!("the power does not fail here"),
        }
    }

    /// Sleeps, and keeps the image as a snapshot, having been told so.
    pub(crate) fn keep(&mut self, disk: &mut dyn Medium) -> Result<(), NotAsleep> {
        let mut medium = &mut *disk;
        let window = Window::new(&mut medium, START, 7 * MIB).unwrap();
        order_snapshot(window).map_err(|error| NotAsleep::Refused(error.into()))?;
        self.sleep(disk)
    }

    /// A power-on that wakes no image.
    pub(crate) fn boot_without_wake(&mut self, disk: &mut dyn Medium) -> Result<(), Cleared> {
        let vault = self.vault.as_mut().map(|vault| vault as &mut dyn KeyVault);
        let machine = FakeMachine::new(disk, START, 7 * MIB, vault);
        machine.load_mark.set(self.load_mark);
        let discarded = discard_images(&machine, self.memory.os(), &mut self.work.lend());
        self.load_mark = machine.load_mark.get();
        self.load_marks = machine.load_marks.take();
        discarded
    }

    /// A power-on.
    pub(crate) fn boot(&mut self, disk: &mut dyn Medium) -> Boot {
        let vault = self.vault.as_mut().map(|vault| vault as &mut dyn KeyVault);
        let machine = FakeMachine::new(disk, START, 7 * MIB, vault);
        machine.load_mark.set(self.load_mark);
        let woke = machine.wake(self.memory.os(), &mut self.work.lend());
        self.load_mark = machine.load_mark.get();
        self.load_marks = machine.load_marks.take();
        let reason = match woke {
            Woke::Awake(_) => return Boot::Woken,
            Woke::Reset(failure) => return Boot::Failed(failure),
            Woke::Cleared => return Boot::Cleared,
            Woke::Cold(start) => start.reason(),
        };
        match reason {
            ColdBoot::NoWake(NoWake::NoImage(reason)) => Boot::Cold(reason),
            ColdBoot::NoWake(NoWake::LastWakeFailed(failure)) => Boot::LastWakeFailed(failure),
            ColdBoot::NoWake(NoWake::Disabled { tries, failure }) => Boot::Disabled(tries, failure),
            ColdBoot::NoWake(NoWake::Refused(refusal)) => match refusal {
                Refusal::Image(error) => Boot::Refused(error),
                Refusal::NotConsumed(error) | Refusal::NotCounted(error) | Refusal::Over(error) => {
                    Boot::Store(error)
                }
                Refusal::Medium(error) => Boot::Store(error.into()),
                Refusal::State(_) | Refusal::Workspace(_) | Refusal::NoDomain => {
                    panic!("{refusal:?}")
                }
            },
            ColdBoot::Area(AreaError::Store(error)) => Boot::Store(error),
            other => panic!("{other:?}"),
        }
    }
}

fn order_snapshot<M: Medium>(window: Window<'_, M>) -> Result<(), StoreError> {
    let mut scratch = Page::ZERO;
    let mut area = Area::open(window, &mut scratch, None, RecordFormat::Image)?;
    let configuration = area.configuration().unwrap_or_default();
    area.configure(&Configuration {
        next_snapshot: Some(Name::NONE),
        ..configuration
    })
}

/// A disk with room for an area of 7 MiB.
pub(crate) fn disk() -> FakeMedium {
    FakeMedium::new(START + 7 * MIB + PAGE_BYTES).with_limits(48, 3)
}

pub(crate) fn area<'a>(
    disk: &'a mut FakeMedium,
    scratch: &'a mut Page,
) -> Result<Area<'a, FakeMedium>, StoreError> {
    Area::open(
        Window::new(disk, START, 7 * MIB).unwrap(),
        scratch,
        None,
        RecordFormat::Image,
    )
}

/// Byte of the disk at which the record of a slot begins.
pub(crate) fn record_at(slot: u64) -> u64 {
    START + (1 + slot) * PAGE_BYTES
}
