//! A machine with a sleep area that sleeps and wakes as the firmware does.

#![allow(dead_code, reason = "each test takes what it needs")]

use poorwill_image::{
    Alone, Here, OpenError, Salt, SaveRequest, Seal, SealingKey, Trust, Workspace,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_medium::{Medium, Window};
use poorwill_memory::{MachineIdentity, fake::FakeMemory};
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use poorwill_store::{Area, Failure, Name, NoImage, NoWake, Purpose, Refusal, StoreError, Wake};
use poorwill_vault::Guard;
use poorwill_vault::fake::FakeGuard;

pub(crate) const MIB: u64 = 1 << 20;

/// Where the area lies on the disk: at no page, as partitions may.
pub(crate) const START: u64 = 34 * 512;

pub(crate) const HERE: MachineIdentity = MachineIdentity {
    memory: 1,
    harts: 2,
    isa: 3,
    device_tree: 4,
};

/// A check of the machine's state that cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never {}

/// Why a machine did not go to sleep.
pub(crate) type NoSleep = poorwill_store::NoSleep<Never>;

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
    /// The area or its medium failed before anything was consumed for certain.
    Store(StoreError),
}

/// What a machine has that seals.
#[derive(Debug)]
pub(crate) struct Vault {
    pub(crate) key: SealingKey,
    pub(crate) guard: FakeGuard,
}

pub(crate) struct Machine {
    pub(crate) memory: FakeMemory,
    /// What it seals its images with, if it does.
    pub(crate) vault: Option<Vault>,
    workspace: Vec<Page>,
    scratch: Page,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let mut memory = FakeMemory::new(&[100, 250]);
        let pages = to_usize(Workspace::pages_needed(memory.os().pages()));
        Machine {
            memory,
            vault: None,
            workspace: vec![Page::ZERO; pages],
            scratch: Page::ZERO,
        }
    }

    /// A machine that seals its images.
    pub(crate) fn sealing() -> Self {
        let vault = Vault {
            key: SealingKey::new([7; 32]),
            guard: FakeGuard::new(0),
        };
        Machine {
            vault: Some(vault),
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

    pub(crate) fn sleep(&mut self, disk: &mut impl Medium) -> Result<(), NoSleep> {
        self.sleep_in(disk, 7 * MIB)
    }

    /// Sleeps in an area of another length.
    pub(crate) fn sleep_in(&mut self, disk: &mut impl Medium, bytes: u64) -> Result<(), NoSleep> {
        self.sleep_for(Purpose::Once, disk, bytes)
    }

    /// Sleeps, and keeps the image as a snapshot.
    pub(crate) fn keep(&mut self, disk: &mut impl Medium) -> Result<(), NoSleep> {
        self.sleep_for(Purpose::Snapshot(Name::NONE), disk, 7 * MIB)
    }

    fn sleep_for(
        &mut self,
        purpose: Purpose,
        disk: &mut impl Medium,
        bytes: u64,
    ) -> Result<(), NoSleep> {
        let (key, guard) = parts(&mut self.vault);
        let window = Window::new(disk, START, bytes).unwrap();
        let mut area = Area::open(window, &mut self.scratch, guard)?;
        let os = self.memory.os();
        let mut workspace = Workspace::new(&mut self.workspace, os.pages()).unwrap();
        let capture = |_: &mut Workspace<'_>, generation| {
            Ok(SaveRequest {
                identity: HERE,
                generation,
                kind: purpose.kind(),
                saved_at_ns: 0,
                state_bytes: 0,
                seal: key.map(|key| Seal {
                    key,
                    salt: Salt([0; 8]),
                }),
            })
        };
        let slept = poorwill_store::sleep(
            area.begin(purpose)?,
            os,
            &mut workspace,
            &Alone,
            capture,
            || 1,
            &mut |_| (),
        );
        slept.map(drop)
    }

    /// A power-on.
    pub(crate) fn boot(&mut self, disk: &mut impl Medium) -> Boot {
        let (key, guard) = parts(&mut self.vault);
        let window = Window::new(disk, START, 7 * MIB).unwrap();
        let mut area = match Area::open(window, &mut self.scratch, guard) {
            Ok(area) => area,
            Err(error) => return Boot::Store(error),
        };
        let os = self.memory.os();
        let here = Here {
            identity: HERE,
            os_pages: os.pages(),
            trust: key.map_or(Trust::Plain, Trust::Sealed),
            is_clear: false,
        };
        let pages = &mut self.workspace;
        let check = |_: poorwill_image::StateReader<'_>| Ok::<(), Never>(());
        match poorwill_store::wake(&mut area, os, pages, &here, &Alone, check, &mut |_| ()) {
            Wake::Woken { .. } => Boot::Woken,
            Wake::Cold(NoWake::NoImage(reason), _) => Boot::Cold(reason),
            Wake::Cold(NoWake::LastWakeFailed(failure), _) => Boot::LastWakeFailed(failure),
            Wake::Cold(NoWake::Disabled { tries, failure }, _) => Boot::Disabled(tries, failure),
            Wake::Cold(NoWake::Refused(refusal), _) => match refusal {
                Refusal::Image(error) => Boot::Refused(error),
                Refusal::NotConsumed(error) | Refusal::NotCounted(error) | Refusal::Over(error) => {
                    Boot::Store(error)
                }
                Refusal::Medium(error) => Boot::Store(error.into()),
                Refusal::State(_) | Refusal::Workspace(_) => panic!("{refusal:?}"),
            },
            Wake::Spoilt(consumed, failure) => {
                let _ = area.record_failure(consumed, failure);
                Boot::Failed(failure)
            }
        }
    }
}

/// The vault, as an area and as an image need it.
fn parts(vault: &mut Option<Vault>) -> (Option<&SealingKey>, Option<&mut dyn Guard>) {
    match vault {
        Some(Vault { key, guard }) => (Some(key), Some(guard)),
        None => (None, None),
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
    Area::open(Window::new(disk, START, 7 * MIB).unwrap(), scratch, None)
}

/// Byte of the disk at which the record of a slot begins.
pub(crate) fn record_at(slot: u64) -> u64 {
    START + (1 + slot) * PAGE_BYTES
}
