//! A machine of a handful of pages that sleeps and wakes as the firmware does.

use poorwill_image::{
    Alone, Here, ImageKind, LoadError, Salt, SaveRequest, Seal, SealingKey, StateReader,
    StateWriter, Trust, Workspace, load, open,
};
use poorwill_medium::{MediumError, Window};
use poorwill_memory::{MachineIdentity, fake::FakeMemory};
use poorwill_memory::{Page, to_usize};
use poorwill_store::{
    Admitted, Area, CommitError, DiscardReason, Failure, NoSleep, Purpose, StoreError, Wake,
};
use poorwill_vault::Guard;

use crate::bench::{AREA_BYTES, Disk, Shared};
use crate::count::Counter;
use crate::{Config, Flaw};

/// What memory holds before anything is loaded into it.
pub(crate) const NOISE: u64 = u64::MAX >> 8;

/// The one record of the machine's state: the number of the sleep.
const TAG: u32 = 1;

const HERE: MachineIdentity = MachineIdentity {
    memory: 1,
    harts: 2,
    isa: 3,
    device_tree: 4,
};

/// The machine's state cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadState;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    Committed,
    /// The machine is reset.
    InDoubt,
    /// The OS goes on.
    Not,
}

/// How a power-on ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    /// With the state of this sleep.
    Woken(u64),
    Cold {
        /// Every image was given up.
        gave_up: bool,
    },
    /// The image was consumed and could not be loaded: the machine is reset.
    Spoilt,
}

pub(crate) struct Machine {
    shared: Shared,
    memory: FakeMemory,
    workspace: Vec<Page>,
    scratch: Page,
    key: SealingKey,
}

impl Config {
    /// The lengths of the machine's memory, in pages. Sealing takes time, and
    /// every sector of a sealed page differs, so that machine has fewer.
    fn memory(self) -> [u64; 2] {
        if self.sealed { [1, 3] } else { [2, 4] }
    }

    /// One page in so many is zero.
    fn zero_one_in(self) -> u64 {
        if self.sealed { 2 } else { 4 }
    }

    /// What a page of memory holds while the OS is about to sleep for the
    /// `sleep`th time: nothing that any other sleep has there, in one or two
    /// sectors of it, or zeros.
    fn page(self, sleep: u64, index: u64) -> Page {
        let mut page = Page::ZERO;
        if sleep == NOISE || !(sleep + index).is_multiple_of(self.zero_one_in()) {
            page.0[0] = sleep << 8 | (index + 1);
            if index == sleep % 3 {
                page.0[300] = page.0[0];
            }
        }
        page
    }
}

impl Machine {
    pub(crate) fn new(shared: &Shared) -> Self {
        let mut memory = FakeMemory::new(&shared.get().config.memory());
        let pages = memory.os().pages();
        Machine {
            shared: shared.clone(),
            memory,
            workspace: vec![Page::ZERO; to_usize(Workspace::pages_needed(pages))],
            scratch: Page::ZERO,
            key: SealingKey::new([7; 32]),
        }
    }

    /// The OS uses its memory, as it does before that sleep.
    pub(crate) fn use_memory(&mut self, sleep: u64) {
        let config = self.shared.get().config;
        for index in 0..self.memory.os().pages() {
            self.memory.set(index, &config.page(sleep, index));
        }
    }

    /// Whether memory is as [`Machine::use_memory`] left it.
    pub(crate) fn memory_is(&self, sleep: u64) -> bool {
        let config = self.shared.get().config;
        let pages = self.memory.contents();
        let mut numbered = (0..).zip(&pages);
        numbered.all(|(index, page)| *page == config.page(sleep, index))
            && self.memory.gaps_are_intact()
    }

    pub(crate) fn sleep(&mut self, sleep: u64) -> Slept {
        let Machine {
            shared,
            memory,
            workspace,
            scratch,
            key,
        } = self;
        let sealed = shared.get().config.sealed;
        let capture = |workspace: &mut Workspace<'_>, generation| {
            let mut state = StateWriter::new(&mut workspace.state[..1]);
            state.record(TAG, 1, &sleep).map_err(|_| BadState)?;
            shared.get().capture(generation);
            let seal = Seal {
                key,
                salt: Salt(sleep.to_le_bytes()),
            };
            Ok::<_, BadState>(SaveRequest {
                identity: HERE,
                generation,
                kind: ImageKind::Once,
                saved_at_ns: 0,
                state_bytes: state.finish(),
                seal: sealed.then_some(seal),
            })
        };
        let slept = with_area(shared, scratch, |area| {
            let os = memory.os();
            let mut workspace = Workspace::new(workspace, os.pages()).expect("room");
            let slot = area.begin(Purpose::Once)?;
            poorwill_store::sleep(slot, os, &mut workspace, &Alone, capture, || 1, &mut |_| ())
        });
        match slept {
            Ok(Ok(_)) => Slept::Committed,
            Ok(Err(NoSleep::Commit(CommitError::InDoubt(_)))) => Slept::InDoubt,
            Ok(Err(_)) | Err(_) => Slept::Not,
        }
    }

    /// A power-on that wakes what there is to wake.
    pub(crate) fn power_on(&mut self) -> Boot {
        let Machine {
            shared,
            memory,
            workspace,
            scratch,
            key,
        } = self;
        let config = shared.get().config;
        let here = Here {
            identity: HERE,
            os_pages: memory.os().pages(),
            trust: if config.sealed {
                Trust::Sealed(key)
            } else {
                Trust::Plain
            },
            is_clear: false,
        };
        let found = with_area(shared, scratch, |area| {
            if config.flaw.is_in_waking() {
                return wake_by_hand(area, memory, workspace, &here, config.flaw);
            }
            let os = memory.os();
            let check = |state: StateReader<'_>| sleep_in(state).map(drop);
            let wake = poorwill_store::wake(area, os, workspace, &here, &Alone, check, &mut |_| ());
            match wake {
                Wake::Woken { image, .. } => {
                    Attempt::Woken(sleep_in(image.state()).expect("it was checked"))
                }
                Wake::Cold(_, complaint) => Attempt::Cold(complaint.is_none()),
                Wake::Spoilt(image, failure) => Attempt::Spoilt(image, failure),
            }
        });
        match found {
            Ok(Attempt::Woken(sleep)) => Boot::Woken(sleep),
            Ok(Attempt::Cold(gave_up)) => Boot::Cold { gave_up },
            Ok(Attempt::Spoilt(image, failure)) => {
                // That it may fail is part of it: the reason is lost, no more.
                let _ = with_area(shared, scratch, |area| area.record_failure(image, failure));
                Boot::Spoilt
            }
            Err(_) => self.cold_boot(),
        }
    }

    /// A power-on that boots cold without looking for an image, as one does
    /// whose area could not be read: whatever there is, it is given up.
    pub(crate) fn cold_boot(&mut self) -> Boot {
        let skipped = self.shared.get().config.flaw == Flaw::NothingGivenUp;
        let sealed = self.shared.get().config.sealed;
        let disarmed = sealed && Counter(self.shared.clone()).disarm().is_ok();
        let gave_up = skipped
            || with_area(&self.shared, &mut self.scratch, |area| {
                area.discard_all(DiscardReason::ColdBoot).is_ok()
            })
            .unwrap_or(disarmed);
        Boot::Cold { gave_up }
    }
}

/// What became of an attempt to wake.
enum Attempt {
    Woken(u64),
    Cold(bool),
    Spoilt(Admitted, Failure),
}

/// The sleep that a machine's state tells of.
fn sleep_in(mut state: StateReader<'_>) -> Result<u64, BadState> {
    let record = state.next().ok_or(BadState)?.map_err(|_| BadState)?;
    record.read::<u64>().copied().map_err(|_| BadState)
}

/// Calls `then` with the area, its records read anew.
fn with_area<T>(
    shared: &Shared,
    scratch: &mut Page,
    then: impl FnOnce(&mut Area<'_, Disk>) -> T,
) -> Result<T, StoreError> {
    let sealed = shared.get().config.sealed;
    let mut disk = Disk(shared.clone());
    let mut counter = Counter(shared.clone());
    let guard: Option<&mut dyn Guard> = if sealed { Some(&mut counter) } else { None };
    let window = Window::new(&mut disk, 0, AREA_BYTES)?;
    Ok(then(&mut Area::open(window, scratch, guard)?))
}

/// The steps of a wake put together from the store's pieces, rightly
/// ([`Flaw::RightByHand`]) or wrongly.
fn wake_by_hand(
    area: &mut Area<'_, Disk>,
    memory: &mut FakeMemory,
    pages: &mut [Page],
    here: &Here<'_>,
    flaw: Flaw,
) -> Attempt {
    match attempt_by_hand(area, memory, pages, here, flaw) {
        Some(attempt) => attempt,
        None if flaw == Flaw::NothingGivenUp => Attempt::Cold(true),
        None => Attempt::Cold(area.discard_all(DiscardReason::ColdBoot).is_ok()),
    }
}

/// `None`: there is nothing to load, or it may not be.
fn attempt_by_hand(
    area: &mut Area<'_, Disk>,
    memory: &mut FakeMemory,
    pages: &mut [Page],
    here: &Here<'_>,
    flaw: Flaw,
) -> Option<Attempt> {
    let image = area.newest().ok()?;
    let workspace = Workspace::new(pages, here.os_pages).ok()?;
    let mut slot = area.slot(image.slot()).ok()?;
    let opened = open(&mut slot, image.expected(), here, workspace).ok()?;
    let sleep = sleep_in(opened.state()).ok()?;
    let early = match flaw {
        Flaw::LoadedFirst => None,
        _ => Some(area.admit(&image).ok()?),
    };
    let mut slot = area.slot(image.slot()).ok()?;
    let loaded = load(&mut slot, &opened, memory.os(), &Alone, &mut |_| ());
    let consumed = match early {
        Some(consumed) => consumed,
        None => area.admit(&image).ok()?,
    };
    Some(match loaded {
        Ok(_) => Attempt::Woken(sleep),
        Err(LoadError::DamagedPiece { .. }) if flaw == Flaw::DigestsIgnored => {
            Attempt::Woken(sleep)
        }
        Err(LoadError::Medium(MediumError::Device { status, .. })) => {
            Attempt::Spoilt(consumed, Failure::Device(status))
        }
        Err(_) => Attempt::Spoilt(consumed, Failure::Other(0, 0)),
    })
}
