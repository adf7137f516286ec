//! A machine with domains that sleeps and wakes as the firmware does.

use std::ops::Range;

use poorwill_medium::fake::FakeMedium;
use poorwill_medium::{Medium, Window};
use poorwill_memory::checksum::name_hash;
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{EntryPoint, PAGE_BYTES, Page, to_usize};
use poorwill_sleep::fake::{FakeDomain, FakeMachine, FakeWork, IDENTITY};
use poorwill_sleep::{ColdBoot, ColdStart, NoSleep, Outcome, Slept, Woke};
use poorwill_store::fake::TABLE_BYTES;
use poorwill_store::{Area, Failure, RecordFormat, StoreError};
use poorwill_vault::KeyVault;

pub(crate) const MIB: u64 = 1 << 20;

/// Where the area lies on the disk: at no page, as partitions may.
pub(crate) const START: u64 = TABLE_BYTES;

/// MiB of slots for eight domains.
const SLOT_MIB: u64 = 12;

/// The names of the domains, in the order of their wakes.
pub(crate) const NAMES: [&str; 8] = ["can", "b", "linux", "d", "e", "f", "g", "h"];

/// Pages of each domain: the third one has two pieces.
pub(crate) const PAGES: [u64; 8] = [5, 9, 300, 1, 2, 33, 4, 7];

/// Where an OS goes on.
pub(crate) const VECTOR: EntryPoint = EntryPoint {
    address: 0,
    argument: 0,
};

/// What a fake machine does beside sleeping and waking.
pub(crate) type Setup<'s> = &'s dyn Fn(&mut FakeMachine<'_>);

pub(crate) struct Machine {
    pub(crate) memories: Vec<FakeMemory>,
    work: FakeWork,
}

/// What a power-on came to.
#[derive(Debug)]
pub(crate) struct Boot {
    pub(crate) woke: Boots,
    /// The domains in the order in which they went on, the last one at the end.
    pub(crate) ends: Vec<(usize, Outcome<u64>)>,
    pub(crate) said: Vec<String>,
    /// How often time went on from the sleep.
    pub(crate) continued: usize,
    /// Lines that were said before the last release.
    pub(crate) early_lines: usize,
}

/// The kinds of power-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boots {
    Awake,
    Cold(ColdStart),
    Reset(Failure),
}

impl Boot {
    /// What became of a domain of a machine that is awake.
    pub(crate) fn end(&self, domain: usize) -> Option<Outcome<u64>> {
        let mut ends = self.ends.iter();
        let end = ends.find(|(index, _)| *index == domain);
        end.map(|(_, outcome)| *outcome)
    }

    /// Whether the domain wakes.
    pub(crate) fn wakes(&self, domain: usize) -> bool {
        matches!(self.end(domain), Some(Outcome::Wakes(_)))
    }

    /// The reason of a machine that boots cold.
    pub(crate) fn cold(&self) -> Option<ColdBoot> {
        match self.woke {
            Boots::Cold(start) => Some(start.reason()),
            _ => None,
        }
    }
}

/// The state of a domain that sleeps with this seed.
pub(crate) fn state(domain: usize, seed: u64) -> u64 {
    seed << 8 | domain as u64
}

/// What a page of a domain holds with this seed: zeros, or what no other page ever holds.
fn page(domain: usize, seed: u64, index: u64) -> Page {
    let mut page = Page::ZERO;
    // The last page is in use, so that the image ends with it.
    if !(index + seed).is_multiple_of(7) || index + 1 == PAGES[domain] {
        page.0[to_usize(index)] = seed << 32 | index << 8 | (domain as u64 + 1);
    }
    page
}

impl Machine {
    /// A machine with this number of domains.
    pub(crate) fn new(domains: usize) -> Self {
        let memories: Vec<_> = PAGES[..domains]
            .iter()
            .map(|pages| match pages {
                1 => FakeMemory::new(&[1]),
                pages => FakeMemory::new(&[1, pages - 1]),
            })
            .collect();
        Machine {
            memories,
            work: FakeWork::new(300),
        }
    }

    pub(crate) fn domains(&self) -> usize {
        self.memories.len()
    }

    /// All domains use their memory.
    pub(crate) fn run(&mut self, seed: u64) {
        for (domain, memory) in self.memories.iter_mut().enumerate() {
            for index in 0..PAGES[domain] {
                memory.set(index, &page(domain, seed, index));
            }
        }
    }

    /// Whether a domain's memory holds what [`Machine::run`] put there.
    pub(crate) fn holds(&self, domain: usize, seed: u64) -> bool {
        let memory = &self.memories[domain];
        let mut pages = (0..).zip(memory.contents());
        pages.all(|(index, found)| found == page(domain, seed, index)) && memory.gaps_are_intact()
    }

    /// Whether each domain's memory does.
    pub(crate) fn all_hold(&self, seed: u64) -> bool {
        (0..self.domains()).all(|domain| self.holds(domain, seed))
    }

    /// Those of the domains that are `asleep` sleep, after a `run` with this seed.
    pub(crate) fn sleep_those<'a>(
        &mut self,
        disk: &'a mut dyn Medium,
        seed: u64,
        asleep: &[bool],
        vault: Option<&'a mut dyn KeyVault>,
        setup: Setup<'_>,
    ) -> (Slept, Vec<String>) {
        let area_bytes = area_bytes(disk);
        let mut machine = FakeMachine::new(disk, START, area_bytes, vault);
        machine.format = RecordFormat::Set;
        let sleepers = (0..).zip(&mut self.memories).zip(asleep);
        let sleepers = sleepers.filter(|(_, asleep)| **asleep).map(|(one, _)| one);
        let (numbers, memories): (Vec<usize>, Vec<_>) = sleepers.unzip();
        machine.domains = numbers.iter().map(|number| domain(*number, seed)).collect();
        setup(&mut machine);
        let memories = memories.into_iter().map(FakeMemory::os);
        let slept = machine.sleep_all(memories, VECTOR, &mut self.work.lend());
        (slept, machine.said.take())
    }

    /// All domains sleep.
    pub(crate) fn sleep(&mut self, disk: &mut dyn Medium, seed: u64) -> Slept {
        self.sleep_those(disk, seed, &[true; 8], None, &|_| ()).0
    }

    /// All domains sleep, on a machine with something special.
    pub(crate) fn try_sleep(
        &mut self,
        disk: &mut dyn Medium,
        seed: u64,
        setup: Setup<'_>,
    ) -> (Slept, Vec<String>) {
        self.sleep_those(disk, seed, &[true; 8], None, setup)
    }

    /// A power-on.
    pub(crate) fn boot(&mut self, disk: &mut dyn Medium) -> Boot {
        self.boot_with(disk, None, &|_| ())
    }

    pub(crate) fn boot_with<'a>(
        &mut self,
        disk: &'a mut dyn Medium,
        vault: Option<&'a mut dyn KeyVault>,
        setup: Setup<'_>,
    ) -> Boot {
        let area_bytes = area_bytes(disk);
        let mut machine = FakeMachine::new(disk, START, area_bytes, vault);
        machine.format = RecordFormat::Set;
        machine.step_ticks = 1_000_000;
        machine.domains = (0..self.domains())
            .map(|number| domain(number, 0))
            .collect();
        setup(&mut machine);
        let memories = self.memories.iter_mut().map(FakeMemory::os);
        let woke = machine.wake_all(memories, &mut self.work.lend());
        let released = machine.released.take().into_iter();
        let number = |name: &str| NAMES.iter().position(|other| *other == name);
        let mut ends: Vec<_> = released
            .map(|(name, outcome)| (number(&name).unwrap(), outcome))
            .collect();
        let woke = match woke {
            Woke::Awake(last) => {
                ends.push((self.domains() - 1, last));
                Boots::Awake
            }
            Woke::Cold(start) => Boots::Cold(start),
            Woke::Reset(failure) => Boots::Reset(failure),
            Woke::Cleared => panic!("sets are plain"),
        };
        Boot {
            woke,
            ends,
            continued: machine.continued.get(),
            early_lines: machine.lines_at_release.get(),
            said: machine.said.take(),
        }
    }
}

/// A domain with its state.
pub(crate) fn domain<'f>(number: usize, seed: u64) -> FakeDomain<'f> {
    let mut domain = FakeDomain::new(NAMES[number]);
    domain.identity.memory = IDENTITY.memory + number as u64;
    domain.state = state(number, seed);
    domain
}

/// A disk with slots for eight domains.
pub(crate) fn disk() -> FakeMedium {
    disk_of(SLOT_MIB)
}

/// A disk whose slots have this number of MiB.
pub(crate) fn disk_of(slot_mib: u64) -> FakeMedium {
    let area_bytes = MIB * (1 + 2 * slot_mib);
    FakeMedium::new(START + area_bytes + PAGE_BYTES).with_limits(48, 3)
}

/// The length of the area on such a disk.
fn area_bytes(disk: &mut dyn Medium) -> u64 {
    (disk.capacity() - START) / MIB * MIB
}

/// Whether the image or the set is committed.
pub(crate) fn is_asleep(slept: &Slept) -> bool {
    matches!(slept, Slept::Asleep(_))
}

/// Why the OS goes on instead of sleeping.
pub(crate) fn refusal(slept: Slept) -> NoSleep {
    match slept {
        Slept::Refused(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Runs `job` on the area.
pub(crate) fn on_area<R>(
    disk: &mut FakeMedium,
    job: impl FnOnce(&mut Area<'_, FakeMedium>) -> R,
) -> Result<R, StoreError> {
    let mut scratch = Page::ZERO;
    let area_bytes = area_bytes(disk);
    let window = Window::new(disk, START, area_bytes)?;
    let mut area = Area::open(window, &mut scratch, None, RecordFormat::Set)?;
    Ok(job(&mut area))
}

/// Whether a set would wake.
pub(crate) fn has_set(disk: &mut FakeMedium) -> bool {
    on_area(disk, |area| area.newest().is_ok()).unwrap()
}

/// Where the parts of the committed set lie on the disk, by domain.
pub(crate) fn parts(disk: &mut FakeMedium) -> [Option<Range<u64>>; 8] {
    on_area(disk, |area| {
        let slot = area.newest().unwrap().slot();
        let record = *area.slots()[slot.index()].record().unwrap();
        let find = |name: &str| {
            let mut parts = record.parts().iter();
            let part = parts.find(|part| part.name_hash == name_hash(name))?;
            let start = START + record.slot_offset + part.first_page * PAGE_BYTES;
            Some(start..start + part.bytes)
        };
        NAMES.map(find)
    })
    .unwrap()
}

/// The number of commands that `job` takes on the disk.
pub(crate) fn commands(disk: &mut FakeMedium, job: impl FnOnce(&mut FakeMedium)) -> u64 {
    disk.restart();
    job(disk);
    disk.log().len() as u64
}
