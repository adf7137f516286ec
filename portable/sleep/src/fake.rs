//! A machine in memory, for tests: one disk with one sleep area, a vault or none, and
//! domains with a state of one number each.

extern crate std;

mod disk;
mod domain;
mod harts;

use core::cell::{Cell, RefCell, RefMut};
use core::fmt;
use core::sync::atomic::Ordering;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use arrayvec::ArrayVec;
use poorwill_image::{Progress, StateSections, StateWriter, Workers};
use poorwill_medium::Medium;
use poorwill_medium::nvme::{SharedNamespace, Stop};
use poorwill_memory::{EntryPoint, OsMemory, Page, to_usize};
use poorwill_store::RecordFormat;
use poorwill_store::fake::{TABLE_BYTES, overlapping_partition_table, partition_table_beside};
use poorwill_vault::KeyVault;

pub use self::disk::Partitioned;
pub use self::domain::{FakeDomain, IDENTITY};
pub use self::harts::FakeHarts;
use crate::cut::fake::FakeRecord;
use crate::cut::{CutCommitted, NoCut};
use crate::retain::{Signals, Sleeper, Source};
use crate::{
    AreaError, BootAttempt, Clock, Console, Devices, Event, HasVault, Job, LeftInUse, LentVault,
    LoadMark, MAX_DEVICES, Machine, MediumId, NotKept, Obstacle, Outcome, Power, Quiesced, RamWake,
    Slept, StateRefusal, Stopped, VaultState, WarmReset, Woke, Work, sleep, wake,
};

/// Owner of the one section of the machine's state.
const MACHINE: u32 = u32::from_le_bytes(*b"FAKE");

const NS_PER_MS: u64 = 1_000_000;

/// A machine in memory. A tick is a nanosecond.
pub struct FakeMachine<'f> {
    disk: RefCell<&'f mut dyn Medium>,
    vault: RefCell<Option<&'f mut dyn KeyVault>>,
    /// Where the area begins in `disk`, before which there is a partition table that
    /// costs no command.
    start: u64,
    length: u64,
    /// The time now, in ticks.
    pub now: Cell<u64>,
    /// Ticks that each step of a save takes.
    pub step_ticks: u64,
    /// What wakes it, and when, in ticks.
    pub wakes_at: Option<(Source, u64)>,
    /// When its battery is low, in ticks.
    pub battery_low_at: Option<u64>,
    /// It can switch its power off.
    pub can_power_off: bool,
    /// All its disks are its domains'.
    pub only_retains: bool,
    /// Its disk has a partition table.
    pub has_area: bool,
    /// Bytes of another partition right behind the area.
    pub other_bytes: u64,
    /// Another partition overlaps the area.
    pub is_overlapped: bool,
    /// Its controller has another namespace, with an area that is overlapped.
    pub has_refused_namespace: bool,
    /// What it keeps.
    pub format: RecordFormat,
    /// Its domains, in the order of their wakes: one without a name.
    pub domains: Vec<FakeDomain<'f>>,
    /// The domains that it has released, by their names, with what has become of them.
    pub released: RefCell<Vec<(String, Outcome<u64>)>>,
    /// How many lines it had said at the last release.
    pub lines_at_release: Cell<usize>,
    /// How often its time went on from a sleep's moment.
    pub continued: Cell<usize>,
    /// What a key pressed at a wake is worth.
    pub has_key: bool,
    /// The snapshot's wake that ran before a reset, or that runs.
    pub attempt: Cell<Option<BootAttempt>>,
    /// The record of its cuts, if it can be cut.
    pub record: Option<FakeRecord>,
    /// Its power fails as it asks to be cut.
    pub power_fails: bool,
    /// What keeps it from being saved.
    pub obstacle: Cell<Option<Obstacle>>,
    /// The functions that its OS leaves in use.
    pub left_in_use: RefCell<LeftInUse>,
    /// The load mark.
    pub load_mark: Cell<LoadMark>,
    /// Each value that it was given.
    pub load_marks: RefCell<Vec<LoadMark>>,
    /// The number of progress bars that it has begun.
    pub bars: Rc<Cell<usize>>,
    /// A bar has begun, and has not ended.
    has_bar: Cell<bool>,
    /// What it said.
    pub said: RefCell<Vec<String>>,
    /// Its harts.
    pub harts: FakeHarts,
    /// The controllers before its disk, and how each describes that.
    pub controllers: Vec<Option<SharedNamespace>>,
    /// How often a controller was started.
    pub starts: Rc<Cell<usize>>,
    /// The controllers that have written.
    pub wrote: Rc<RefCell<BTreeSet<usize>>>,
    /// The media that each lists. The last one is the disk; the others have unknown formats.
    pub media: Vec<MediumId>,
}

/// Where a controller of a [`FakeMachine`] is: its number.
#[derive(Clone, Copy, Debug)]
pub struct FakePlace(usize);

impl fmt::Display for FakePlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("fake disk")
    }
}

impl fmt::Debug for FakeMachine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeMachine").finish_non_exhaustive()
    }
}

impl<'f> FakeMachine<'f> {
    /// A machine whose area lies at byte `start` of `disk`, and has `length` bytes.
    pub fn new(
        disk: &'f mut dyn Medium,
        start: u64,
        length: u64,
        vault: Option<&'f mut dyn KeyVault>,
    ) -> Self {
        FakeMachine {
            disk: RefCell::new(disk),
            vault: RefCell::new(vault),
            start,
            length,
            now: Cell::new(NS_PER_MS),
            step_ticks: 1,
            wakes_at: None,
            battery_low_at: None,
            can_power_off: true,
            only_retains: false,
            has_area: true,
            other_bytes: 0,
            is_overlapped: false,
            has_refused_namespace: false,
            format: RecordFormat::Image,
            domains: vec![FakeDomain::new("")],
            released: RefCell::default(),
            lines_at_release: Cell::new(0),
            continued: Cell::new(0),
            has_key: false,
            attempt: Cell::new(None),
            record: None,
            power_fails: false,
            obstacle: Cell::new(None),
            left_in_use: RefCell::default(),
            load_mark: Cell::new(LoadMark::Clear),
            load_marks: RefCell::default(),
            bars: Rc::default(),
            has_bar: Cell::new(false),
            said: RefCell::new(Vec::new()),
            harts: FakeHarts::default(),
            controllers: vec![None],
            starts: Rc::default(),
            wrote: Rc::default(),
            media: vec![MediumId::Memory],
        }
    }

    /// Puts its only domain to sleep.
    pub fn sleep(&self, memory: &mut OsMemory, vector: EntryPoint, work: &mut Work<'_>) -> Slept {
        self.sleep_all([memory], vector, work)
    }

    /// Starts it with its only domain.
    pub fn wake(&self, memory: &mut OsMemory, work: &mut Work<'_>) -> Woke<u64> {
        self.wake_all([memory], work)
    }

    /// Puts its domains to sleep, each with its memory.
    pub fn sleep_all<'m>(
        &self,
        memories: impl IntoIterator<Item = &'m mut OsMemory>,
        vector: EntryPoint,
        work: &mut Work<'_>,
    ) -> Slept {
        let domains = self.domains.iter().zip(memories);
        let mut domains: Vec<_> = domains
            .map(|(domain, memory)| Quiesced::new(domain, memory, vector))
            .collect();
        sleep(self, &mut domains, vector, work)
    }

    /// Starts it with its domains, each with its memory.
    pub fn wake_all<'m>(
        &self,
        memories: impl IntoIterator<Item = &'m mut OsMemory>,
        work: &mut Work<'_>,
    ) -> Woke<u64> {
        let domains = self.domains.iter().zip(memories);
        let mut domains: Vec<_> = domains
            .map(|(domain, memory)| Stopped::new(domain, memory))
            .collect();
        wake(self, &mut domains, work, 0)
    }

    fn pass(&self, ticks: u64) {
        self.now.set(self.now.get() + ticks);
    }
}

impl<'f> Machine for FakeMachine<'f> {
    type Domain = FakeDomain<'f>;
    type State<'a> = ();

    fn format(&self) -> RecordFormat {
        self.format
    }

    fn workers(&self) -> &dyn Workers {
        &self.harts
    }

    fn capture(&self, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        Ok(into.section::<[u8]>(MACHINE, 0, 1, &[])?)
    }

    fn check<'a>(&self, sections: &mut StateSections<'a>) -> Result<(), StateRefusal> {
        // Old images have no such section.
        _ = sections.take(MACHINE, 0);
        Ok(())
    }

    fn restore(&self, (): ()) {}

    fn continue_time(&self, _: &u64) {
        self.continued.set(self.continued.get() + 1);
    }

    fn release(&self, domain: &FakeDomain<'f>, outcome: Outcome<u64>) {
        assert!(self.continued.get() > 0, "time goes on first");
        let released = (domain.name.clone(), outcome);
        self.released.borrow_mut().push(released);
        self.lines_at_release.set(self.said.borrow().len());
    }
}

impl Clock for FakeMachine<'_> {
    fn ticks(&self) -> u64 {
        self.now.get()
    }

    fn ticks_in(&self, nanoseconds: u64) -> u64 {
        nanoseconds
    }

    fn milliseconds_in(&self, ticks: u64) -> u64 {
        ticks / NS_PER_MS
    }

    fn now_ns(&self) -> Option<u64> {
        Some(self.now.get())
    }
}

impl Console for FakeMachine<'_> {
    fn say(&self, event: &Event<'_>) {
        self.said.borrow_mut().push(event.to_string());
    }

    fn show(&self, _: Job, _: Progress) {
        self.pass(self.step_ticks);
        if !self.has_bar.replace(true) {
            self.bars.update(|bars| bars + 1);
        }
    }

    fn end_show(&self) {
        self.has_bar.set(false);
    }

    fn key_within(&self, milliseconds: u32) -> bool {
        self.pass(u64::from(milliseconds) * NS_PER_MS);
        self.has_key
    }
}

impl Devices for FakeMachine<'_> {
    type Place = FakePlace;
    type Device<'d> = Partitioned<'d>;

    fn devices(&self) -> ArrayVec<Self::Place, MAX_DEVICES> {
        (0..self.controllers.len()).map(FakePlace).collect()
    }

    fn on_device<R>(
        &self,
        place: &Self::Place,
        stop: impl Fn(&Result<R, AreaError>) -> Stop,
        job: impl FnOnce(&mut Partitioned<'_>) -> Result<R, AreaError>,
    ) -> Result<R, AreaError> {
        self.starts.set(self.starts.get() + 1);
        let mut disk = self.disk.borrow_mut();
        let namespace = || overlapping_partition_table(self.length);
        let mut disk = Partitioned {
            namespace: self.has_refused_namespace.then(namespace),
            is_namespace: false,
            table: match (self.has_area, self.is_overlapped) {
                (true, false) => partition_table_beside(self.length, self.other_bytes),
                (true, true) => overlapping_partition_table(self.length),
                (false, _) => vec![0; to_usize(TABLE_BYTES)],
            },
            start: self.start,
            end: self.start + self.length + self.other_bytes,
            disk: &mut **disk,
            shared: self.controllers[place.0],
            controller: place.0,
            wrote: &self.wrote,
            media: &self.media,
        };
        let result = job(&mut disk);
        stop(&result);
        result
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle.get()
    }

    fn left_in_use(&self) -> LeftInUse {
        self.left_in_use.borrow().clone()
    }
}

/// The vault of a [`FakeMachine`], while it is lent.
pub struct FakeVault<'v, 'f>(RefMut<'v, Option<&'f mut dyn KeyVault>>);

impl fmt::Debug for FakeVault<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeVault").finish_non_exhaustive()
    }
}

impl LentVault for FakeVault<'_, '_> {
    fn state(&mut self) -> VaultState<'_> {
        match self.0.as_mut() {
            Some(vault) => VaultState::Open(&mut **vault),
            None => VaultState::Absent,
        }
    }
}

impl<'f> HasVault for FakeMachine<'f> {
    type Vault<'v>
        = FakeVault<'v, 'f>
    where
        Self: 'v;

    fn vault(&self) -> FakeVault<'_, 'f> {
        FakeVault(self.vault.borrow_mut())
    }

    fn new_key(&self) -> [u8; 32] {
        [7; 32]
    }

    fn new_salt(&self) -> [u8; 8] {
        self.domains[0].state.to_le_bytes()
    }
}

impl Power for FakeMachine<'_> {
    fn can_power_off(&self) -> bool {
        self.can_power_off
    }

    fn to_the_end<R>(&self, job: impl FnOnce() -> R) -> R {
        self.harts.to_the_end.store(true, Ordering::Relaxed);
        let result = job();
        self.harts.to_the_end.store(false, Ordering::Relaxed);
        result
    }

    fn can_be_cut(&self) -> bool {
        self.record.is_some()
    }

    fn cut(&self, _: EntryPoint, _: u64) -> Result<CutCommitted, NoCut> {
        match &self.record {
            Some(record) if !self.power_fails => Ok(record.request()?),
            _ => Err(NoCut::PowerFails),
        }
    }

    fn only_retains(&self) -> bool {
        self.only_retains
    }

    fn woke_from_ram(&self, wake: &RamWake) {
        for domain in &self.domains {
            *domain.told.borrow_mut() = Some(wake.source.to_string());
        }
        self.say(&Event::WokenFromRam {
            by: wake.source,
            slept_ms: wake.slept_ms,
            ms: self.milliseconds_since(wake.at),
        });
    }

    fn with_sleeper<R>(&self, job: impl FnOnce(&mut dyn Sleeper) -> R) -> R {
        job(&mut FakeSleeper(self))
    }
}

impl WarmReset for FakeMachine<'_> {
    fn memory_is_clear(&self) -> bool {
        false
    }

    fn last_attempt(&self) -> Option<BootAttempt> {
        self.attempt.get()
    }

    fn begin_attempt(&self, attempt: BootAttempt) {
        self.attempt.set(Some(attempt));
    }

    fn last_load_mark(&self) -> LoadMark {
        self.load_mark.get()
    }

    fn set_load_mark(&self, mark: LoadMark) {
        self.load_mark.set(mark);
        self.load_marks.borrow_mut().push(mark);
    }
}

/// What rests for the machine.
struct FakeSleeper<'s, 'f>(&'s FakeMachine<'f>);

impl Sleeper for FakeSleeper<'_, '_> {
    fn now(&self) -> u64 {
        self.0.now.get()
    }

    fn look(&mut self) -> Signals {
        let now = self.now();
        Signals {
            wake: self
                .0
                .wakes_at
                .filter(|(_, at)| *at <= now)
                .map(|(source, _)| source),
            due: self.0.wakes_at.map(|(_, at)| at),
            battery_low: self.0.battery_low_at.is_some_and(|at| at <= now),
        }
    }

    fn rest(&mut self, until: u64) {
        assert_ne!(until, u64::MAX, "nothing ends this rest");
        self.0.now.set(until);
    }

    fn look_every(&self) -> Option<u64> {
        Some(NS_PER_MS)
    }
}

/// The memory that a sleep or a wake works in.
#[derive(Clone, Debug)]
pub struct FakeWork(Vec<Page>);

impl FakeWork {
    /// For a machine of so many pages of OS memory.
    #[must_use]
    pub fn new(os_pages: u64) -> Self {
        FakeWork(vec![Page::ZERO; to_usize(Work::pages_needed(os_pages))])
    }

    /// It, for one sleep or wake.
    ///
    /// # Panics
    ///
    /// Never: there are enough pages.
    pub fn lend(&mut self) -> Work<'_> {
        Work::take(&mut self.0).expect("as many pages as are needed")
    }
}
