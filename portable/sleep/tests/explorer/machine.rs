//! A machine of a handful of pages that sleeps and wakes as the firmware does.

use poorwill_image::{
    Here, LoadError, NoWorkers, Opened, SealingKey, StateSections, Trust, Workspace, load, open,
};
use poorwill_medium::{MediumError, Window};
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{EntryPoint, Page};
use poorwill_sleep::fake::{FakeDomain, FakeMachine, FakeWork, IDENTITY};
use poorwill_sleep::{ColdBoot, Domain as _, Outcome as Went, Slept as Outcome, Woke};
use poorwill_store::{
    Admitted, Area, CommittedImage, Configuration, DiscardReason, Failure, RecordFormat,
    SnapshotRules, StoreError,
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
    /// With the state of this sleep: the first domain, and each other one unless it is missing.
    Woken(u64),
    /// The domains have states of different sleeps.
    Mixed,
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

/// A domain of the machine.
struct Domain {
    memory: FakeMemory,
    /// The number of its first page: those of the domains before come first.
    first_page: u64,
    /// What became of it at the last power-on that woke the machine.
    end: Option<Went<u64>>,
}

pub(crate) struct Machine {
    shared: Shared,
    domains: Vec<Domain>,
    work: FakeWork,
    /// For wakes that are put together by hand.
    scratch: Page,
    workspace: Vec<Page>,
}

impl Config {
    pub(crate) fn format(self) -> RecordFormat {
        match self.names() {
            [_] => RecordFormat::Image,
            _ => RecordFormat::Set,
        }
    }

    /// The names of the domains.
    fn names(self) -> &'static [&'static str] {
        match self.set {
            true => &["first", "second"],
            false => &[""],
        }
    }

    /// The lengths of each domain's memory, in pages. Sealing takes time, and
    /// every sector of a sealed page differs, so that machine has fewer.
    fn memory(self) -> &'static [&'static [u64]] {
        match (self.snapshots, self.sealed) {
            _ if self.set => &[&[1, 1], &[2]],
            (true, _) => &[&[1, 1]],
            (false, true) => &[&[1, 3]],
            (false, false) => &[&[2, 4]],
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

impl Domain {
    /// Whether its memory is as [`Machine::use_memory`] left it.
    fn memory_is(&self, config: Config, sleep: u64) -> bool {
        let pages = self.memory.contents();
        let mut numbered = (self.first_page..).zip(&pages);
        numbered.all(|(index, page)| *page == config.page(sleep, index))
            && self.memory.gaps_are_intact()
    }
}

impl Machine {
    pub(crate) fn new(shared: &Shared) -> Self {
        let mut pages = 0;
        let mut domains = Vec::new();
        for ranges in shared.get().config.memory() {
            let mut memory = FakeMemory::new(ranges);
            let first_page = pages;
            pages += memory.os().pages();
            domains.push(Domain {
                memory,
                first_page,
                end: None,
            });
        }
        let workspace = usize::try_from(Workspace::pages_needed(pages)).expect("a few");
        Machine {
            shared: shared.clone(),
            domains,
            work: FakeWork::new(pages),
            scratch: Page::ZERO,
            workspace: vec![Page::ZERO; workspace],
        }
    }

    /// Each OS uses its memory, as it does before that sleep.
    pub(crate) fn use_memory(&mut self, sleep: u64) {
        let config = self.shared.get().config;
        for domain in &mut self.domains {
            for index in 0..domain.memory.os().pages() {
                let page = config.page(sleep, domain.first_page + index);
                domain.memory.set(index, &page);
            }
        }
    }

    /// Whether memory is as [`Machine::use_memory`] left it.
    pub(crate) fn memory_is(&self, sleep: u64) -> bool {
        let config = self.shared.get().config;
        let mut domains = self.domains.iter();
        domains.all(|domain| domain.memory_is(config, sleep))
    }

    /// Whether each domain that has woken has its memory of that sleep, and each that starts cold
    /// still has its own.
    pub(crate) fn woke_with(&self, sleep: u64) -> bool {
        let config = self.shared.get().config;
        self.domains.iter().all(|domain| match domain.end {
            Some(Went::Wakes(_)) => domain.memory_is(config, sleep),
            Some(Went::Cold(_)) => domain.memory_is(config, NOISE),
            Some(Went::Ended(_)) | None => true,
        })
    }

    /// Whether each domain has woken.
    pub(crate) fn all_woke(&self) -> bool {
        let mut domains = self.domains.iter();
        domains.all(|domain| matches!(domain.end, Some(Went::Wakes(_))))
    }

    /// The OS asks for its `number`th sleep.
    pub(crate) fn sleep(&mut self, number: u64) -> Slept {
        let shared = self.shared.clone();
        let on_capture = || shared.get().capture();
        let (mut disk, mut counter) = devices(&shared);
        let vault = counter.as_mut().map(|counter| counter as &mut dyn KeyVault);
        let mut machine = machine(shared.get().config, &mut disk, vault);
        for domain in &mut machine.domains {
            domain.state = number;
        }
        machine.domains[0].on_capture = Some(&on_capture);
        let memories = self.domains.iter_mut().map(|domain| domain.memory.os());
        match machine.sleep_all(memories, VECTOR, &mut self.work.lend()) {
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
        let machine = machine(config, &mut disk, vault);
        let memories = self.domains.iter_mut().map(|domain| domain.memory.os());
        match machine.wake_all(memories, &mut self.work.lend()) {
            Woke::Awake(last) => {
                let released = machine.released.take().into_iter();
                let ends = released.map(|(_, end)| end).chain([last]).collect();
                self.woken(ends)
            }
            Woke::Reset(_) => Boot::PartiallyRestored,
            Woke::Cleared => unreachable!("memory does not outlive the power"),
            Woke::Cold(_) => Boot::Cold {
                gave_up: gave_up(config, &machine.said.borrow()),
            },
        }
    }

    /// Notes what became of each domain of a machine that is awake.
    fn woken(&mut self, ends: Vec<Went<u64>>) -> Boot {
        let Some(Went::Wakes(sleep)) = ends.first().copied() else {
            unreachable!("the first domain wakes, or none does");
        };
        assert_eq!(ends.len(), self.domains.len());
        for (domain, end) in self.domains.iter_mut().zip(&ends) {
            domain.end = Some(*end);
        }
        let mut states = ends.iter();
        let is_one = states.all(|end| !matches!(end, Went::Wakes(other) if *other != sleep));
        if is_one {
            Boot::Woken(sleep)
        } else {
            Boot::Mixed
        }
    }

    /// The same, put together by the test.
    fn power_on_by_hand(&mut self, config: Config) -> Boot {
        let Machine {
            shared,
            domains,
            workspace,
            scratch,
            ..
        } = self;
        let found = with_area(shared, scratch, |area| {
            wake_by_hand(area, domains, workspace, config)
        });
        match found {
            Ok(Attempt::Woken(ends)) => self.woken(ends),
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
    /// What became of each domain.
    Woken(Vec<Went<u64>>),
    Cold(bool),
    PartiallyRestored(Admitted, Failure),
}

/// The machine's disk, and what keeps its count if it has one.
fn devices(shared: &Shared) -> (Disk, Option<Counter>) {
    let sealed = shared.get().config.sealed;
    let counter = sealed.then(|| Counter::new(shared, Key::new(&KEY)));
    (Disk(shared.clone()), counter)
}

/// The machine with these devices.
fn machine<'f>(
    config: Config,
    disk: &'f mut Disk,
    vault: Option<&'f mut dyn KeyVault>,
) -> FakeMachine<'f> {
    let mut machine = FakeMachine::new(disk, 0, AREA_BYTES, vault);
    machine.format = config.format();
    let names = config.names().iter();
    machine.domains = names.map(|name| FakeDomain::new(name)).collect();
    machine
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
    let format = shared.get().config.format();
    let window = Window::new(&mut disk, 0, AREA_BYTES)?;
    Ok(then(&mut Area::open(window, scratch, counter, format)?))
}

/// The steps of a wake put together from the store's pieces, rightly
/// ([`Flaw::RightByHand`]) or wrongly.
fn wake_by_hand(
    area: &mut Area<'_, Disk>,
    domains: &mut [Domain],
    pages: &mut [Page],
    config: Config,
) -> Attempt {
    match attempt_by_hand(area, domains, pages, config) {
        Some(attempt) => attempt,
        None if config.flaw == Flaw::NothingGivenUp => Attempt::Cold(true),
        None => Attempt::Cold(area.discard_all(DiscardReason::ColdBoot).is_ok()),
    }
}

/// `None`: there is nothing to load, or it may not be.
fn attempt_by_hand(
    area: &mut Area<'_, Disk>,
    domains: &mut [Domain],
    pages: &mut [Page],
    config: Config,
) -> Option<Attempt> {
    let image = area.newest().ok()?;
    let mut consumed = None;
    let mut ends = Vec::new();
    for (index, domain) in domains.iter_mut().enumerate() {
        let first = index == 0;
        let Some((opened, sleep)) = open_by_hand(area, &image, (index, domain), pages, config)
        else {
            if first {
                return None;
            }
            ends.push(Went::Cold(ColdBoot::NoPart));
            continue;
        };
        if first && config.flaw != Flaw::LoadedFirst {
            consumed = Some(area.admit(&image).ok()?);
        }
        let mut medium = medium_of(area, &image, index, config)?;
        let os = domain.memory.os();
        let loaded = load(&mut medium, &opened, os, &NoWorkers, &mut |_| ());
        if first && config.flaw == Flaw::LoadedFirst {
            consumed = Some(area.admit(&image).ok()?);
        }
        match loaded.map_err(|error| failure_by_hand(error, first, config)) {
            Ok(_) | Err(None) => ends.push(Went::Wakes(sleep)),
            Err(Some(failure)) if first => {
                return Some(Attempt::PartiallyRestored(consumed?, failure));
            }
            Err(Some(failure)) => {
                // As above, the reason may be lost.
                let _ = area.record_part_failure(consumed.as_ref()?, index, failure);
                ends.push(Went::Ended(failure));
            }
        }
    }
    Some(Attempt::Woken(ends))
}

/// The image of a domain.
fn medium_of<'b, 'a>(
    area: &'b mut Area<'a, Disk>,
    image: &CommittedImage,
    index: usize,
    config: Config,
) -> Option<Window<'b, Window<'a, Disk>>> {
    match config.format() {
        RecordFormat::Image => area.slot(image.slot()).ok(),
        RecordFormat::Set => area.part(image.slot(), index).ok(),
    }
}

/// The image of a domain, checked, and the sleep that its state tells of.
fn open_by_hand<'w>(
    area: &mut Area<'_, Disk>,
    image: &CommittedImage,
    (index, domain): (usize, &mut Domain),
    pages: &'w mut [Page],
    config: Config,
) -> Option<(Opened<'w>, u64)> {
    let key = SealingKey::new(KEY);
    let here = Here {
        identity: IDENTITY,
        os_pages: domain.memory.os().pages(),
        trust: match config.sealed {
            true => Trust::Sealed(&key),
            false => Trust::Plain,
        },
        is_clear: false,
    };
    let expected = match area.parts(image.slot()).get(index) {
        Some(part) => part.expected(image.generation()),
        None => image.expected(),
    };
    let workspace = Workspace::new(pages, here.os_pages).ok()?;
    let mut medium = medium_of(area, image, index, config)?;
    let opened = open(&mut medium, expected, &here, workspace).ok()?;
    let sleep = sleep_in(opened.state().ok()?)?;
    Some((opened, sleep))
}

/// Why a load, of the first domain or a later one, counts as failed; `None`: it does not.
fn failure_by_hand(error: LoadError, first: bool, config: Config) -> Option<Failure> {
    let ignored = match config.flaw {
        Flaw::DigestsIgnored => true,
        Flaw::LaterDigestsIgnored => !first,
        _ => false,
    };
    match error {
        LoadError::DamagedPiece { .. } if ignored => None,
        LoadError::Medium(MediumError::Device { status, .. }) => Some(Failure::Device(status)),
        _ => Some(Failure::Other(0, 0)),
    }
}
