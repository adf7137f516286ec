//! A machine of a handful of pages that sleeps and wakes as the firmware does.

use poorwill_image::{
    Here, LoadError, NoWorkers, SealingKey, StateSections, Trust, Workspace, load, open,
};
use poorwill_medium::{MediumError, Window};
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{EntryPoint, Page};
use poorwill_sleep::fake::{FakeDomain, FakeMachine, FakeWork, IDENTITY};
use poorwill_sleep::{Domain, Outcome as Went, Slept as Outcome, Woke};
use poorwill_store::{
    Admitted, Area, Configuration, DiscardReason, Failure, RecordFormat, SnapshotRules, StoreError,
};
use poorwill_vault::{Key, KeyVault, RollbackCounter};

use crate::bench::{AREA_BYTES, Disk, Shared};
use crate::count::Counter;
use crate::{Config, Flaw};

/// What memory holds before anything is loaded into it.
pub(crate) const NOISE: u64 = u64::MAX >> 8;

/// What the machine seals its images with.
const KEY: [u8; 32] = [7; 32];

/// How often in a row a snapshot's wake may fail.
pub(crate) const TRIES: u32 = 1;

/// Where the OS goes on.
const VECTOR: EntryPoint = EntryPoint {
    address: 0,
    argument: 0,
};

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
    PartiallyRestored,
}

/// What an agent in the OS does with the machine's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    SaysWell,
    Deletes,
}

/// The configuration of a machine that takes snapshots, and whether the next
/// sleep is one: as a page.
pub(crate) fn configuration(asks: bool) -> Page {
    let mut disk = poorwill_medium::fake::FakeMedium::new(AREA_BYTES);
    let mut scratch = Page::ZERO;
    let window = Window::new(&mut disk, 0, AREA_BYTES).expect("it has room");
    let mut area = Area::open(window, &mut scratch, None, RecordFormat::Image)
        .expect("a medium without faults");
    let configuration = Configuration {
        next_snapshot: asks.then(|| "explored".parse().expect("a name")),
        snapshots: SnapshotRules {
            tries: TRIES,
            ..SnapshotRules::default()
        },
        ..Configuration::default()
    };
    area.configure(&configuration).expect("it can be kept");
    scratch
}

pub(crate) struct Machine {
    shared: Shared,
    memory: FakeMemory,
    work: FakeWork,
    /// For wakes that are put together by hand.
    scratch: Page,
    workspace: Vec<Page>,
}

impl Config {
    /// The lengths of the machine's memory, in pages. Sealing takes time, and
    /// every sector of a sealed page differs, so that machine has fewer.
    fn memory(self) -> [u64; 2] {
        match (self.snapshots, self.sealed) {
            (true, _) => [1, 1],
            (false, true) => [1, 3],
            (false, false) => [2, 4],
        }
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
        let workspace = usize::try_from(Workspace::pages_needed(pages)).expect("a few");
        Machine {
            shared: shared.clone(),
            memory,
            work: FakeWork::new(pages),
            scratch: Page::ZERO,
            workspace: vec![Page::ZERO; workspace],
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

    /// The OS asks for its `number`th sleep.
    pub(crate) fn sleep(&mut self, number: u64) -> Slept {
        let shared = self.shared.clone();
        let on_capture = || shared.get().capture();
        let (mut disk, mut counter) = devices(&shared);
        let vault = counter.as_mut().map(|counter| counter as &mut dyn KeyVault);
        let mut machine = FakeMachine::new(&mut disk, 0, AREA_BYTES, vault);
        machine.domains[0].state = number;
        machine.domains[0].on_capture = Some(&on_capture);
        match machine.sleep(self.memory.os(), VECTOR, &mut self.work.lend()) {
            Outcome::Asleep(_) => Slept::Committed,
            Outcome::InDoubt(_) => Slept::InDoubt,
            Outcome::Refused(_) => Slept::Not,
            Outcome::Cut(_) => unreachable!("its RAM is not persistent"),
            Outcome::Awake => unreachable!("the area says that it is to be saved"),
            Outcome::PowerFails { .. } => unreachable!("the power goes at once here"),
        }
    }

    /// A power-on that wakes what there is to wake.
    pub(crate) fn power_on(&mut self) -> Boot {
        let config = self.shared.get().config;
        if config.flaw.is_in_waking() {
            return self.power_on_by_hand(config);
        }
        let (mut disk, mut counter) = devices(&self.shared);
        let vault = counter.as_mut().map(|counter| counter as &mut dyn KeyVault);
        let machine = FakeMachine::new(&mut disk, 0, AREA_BYTES, vault);
        match machine.wake(self.memory.os(), &mut self.work.lend()) {
            Woke::Awake(Went::Wakes(sleep)) => Boot::Woken(sleep),
            Woke::Awake(_) => unreachable!("it has one domain"),
            Woke::Reset(_) => Boot::PartiallyRestored,
            Woke::Cleared => unreachable!("memory does not outlive the power"),
            Woke::Cold(_) => Boot::Cold {
                gave_up: gave_up(config, &machine.said.borrow()),
            },
        }
    }

    /// The same, put together by the test.
    fn power_on_by_hand(&mut self, config: Config) -> Boot {
        let Machine {
            shared,
            memory,
            workspace,
            scratch,
            ..
        } = self;
        let key = SealingKey::new(KEY);
        let here = Here {
            identity: IDENTITY,
            os_pages: memory.os().pages(),
            trust: if config.sealed {
                Trust::Sealed(&key)
            } else {
                Trust::Plain
            },
            is_clear: false,
        };
        let found = with_area(shared, scratch, |area| {
            wake_by_hand(area, memory, workspace, &here, config.flaw)
        });
        match found {
            Ok(Attempt::Woken(sleep)) => Boot::Woken(sleep),
            Ok(Attempt::Cold(gave_up)) => Boot::Cold { gave_up },
            Ok(Attempt::PartiallyRestored(image, failure)) => {
                // That it may fail is part of it: the reason is lost, no more.
                let _ = with_area(shared, scratch, |area| area.record_failure(image, failure));
                Boot::PartiallyRestored
            }
            Err(_) => self.cold_boot(),
        }
    }

    /// What the OS does with the machine's snapshot.
    pub(crate) fn manage(&mut self, what: Agent) -> Result<(), StoreError> {
        with_area(&self.shared, &mut self.scratch, |area| match what {
            Agent::SaysWell => area.snapshot_is_well(),
            Agent::Deletes => area.delete_snapshot(),
        })?
    }

    /// A power-on that boots cold without looking for an image, as one does
    /// whose area could not be read: whatever there is, it is given up.
    pub(crate) fn cold_boot(&mut self) -> Boot {
        let skipped = self.shared.get().config.flaw == Flaw::NothingGivenUp;
        let sealed = self.shared.get().config.sealed;
        let disarmed = sealed && Counter::new(&self.shared, Key::new(&KEY)).disarm().is_ok();
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
    PartiallyRestored(Admitted, Failure),
}

/// The machine's disk, and what keeps its count if it has one.
fn devices(shared: &Shared) -> (Disk, Option<Counter>) {
    let sealed = shared.get().config.sealed;
    let counter = sealed.then(|| Counter::new(shared, Key::new(&KEY)));
    (Disk(shared.clone()), counter)
}

/// Whether a cold boot that said all this has given up every image. What the count
/// says is enough where there is one and the disk cannot be used.
fn gave_up(config: Config, said: &[String]) -> bool {
    let has = |words: &str| said.iter().any(|line| line.contains(words));
    if has("cannot be discarded") {
        return false;
    }
    !has("fake disk 0: ") || config.sealed && !has("may still wake")
}

/// The sleep that a machine's state tells of.
fn sleep_in(mut state: StateSections<'_>) -> Option<u64> {
    FakeDomain::new("").check(&mut state).ok()
}

/// Calls `then` with the area, its records read anew.
fn with_area<T>(
    shared: &Shared,
    scratch: &mut Page,
    then: impl FnOnce(&mut Area<'_, Disk>) -> T,
) -> Result<T, StoreError> {
    let (mut disk, mut counter) = devices(shared);
    let counter = counter
        .as_mut()
        .map(|counter| counter as &mut dyn RollbackCounter);
    let window = Window::new(&mut disk, 0, AREA_BYTES)?;
    Ok(then(&mut Area::open(
        window,
        scratch,
        counter,
        RecordFormat::Image,
    )?))
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
    let sleep = sleep_in(opened.state().ok()?)?;
    let early = match flaw {
        Flaw::LoadedFirst => None,
        _ => Some(area.admit(&image).ok()?),
    };
    let mut slot = area.slot(image.slot()).ok()?;
    let loaded = load(&mut slot, &opened, memory.os(), &NoWorkers, &mut |_| ());
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
            Attempt::PartiallyRestored(consumed, Failure::Device(status))
        }
        Err(_) => Attempt::PartiallyRestored(consumed, Failure::Other(0, 0)),
    })
}
