use std::cell::RefCell;
use std::collections::BTreeMap;

use poorwill_devicetree::{self as devicetree, Aplic};

use super::*;

/// The memory of a machine, as far as it is registers: they keep what is written.
/// How each kind of controller treats its registers is its own tests' matter.
type Memory = RefCell<BTreeMap<u64, u32>>;

struct At<'a>(u64, &'a Memory);

impl Registers<u32> for At<'_> {
    fn read(&self, offset: u64) -> u32 {
        *self.1.borrow().get(&(self.0 + offset)).unwrap_or(&0)
    }

    fn write(&self, offset: u64, value: u32) {
        self.1.borrow_mut().insert(self.0 + offset, value);
    }
}

const PLICS: [u64; 2] = [0x1_0000_0000, 0x2_0000_0000];
const ROOT: u64 = 0x3_0000_0000;
const APLIC: u64 = 0x4_0000_0000;
const THRESHOLD: u64 = 0x20_0000;
const SETIPNUM: u64 = 0x1cdc;

const PLIC_OWNER: u32 = u32::from_le_bytes(*b"PLIC");
const APLIC_OWNER: u32 = u32::from_le_bytes(*b"APLC");

/// Two PLICs of three and of five sources, and an APLIC of two.
fn described() -> Interrupts {
    let mut described = Interrupts::default();
    for (base, sources) in PLICS.into_iter().zip([3, 5]) {
        described.plics.push(devicetree::Plic {
            base,
            sources,
            contexts: [0].into_iter().collect(),
            machine_contexts: [1].into_iter().collect(),
        });
    }
    let mut aplic = Aplic::default();
    (aplic.base, aplic.sources, aplic.msi_parent) = (APLIC, 2, Some(1));
    described.os_aplics.push(aplic.clone());
    aplic.base = ROOT;
    described.machine_aplics.push(aplic);
    described
}

fn controllers<'a>(described: &Interrupts, memory: &'a Memory) -> Controllers<At<'a>> {
    Controllers::new(described, |base| At(base, memory), |_| 0)
}

/// A memory in which an OS has programmed a number of its own into each register.
fn programmed(described: &Interrupts) -> Memory {
    let memory = Memory::default();
    let controllers = controllers(described, &memory);
    let mut number = 0;
    let mut program = |base, offsets: &mut dyn Iterator<Item = u64>| {
        for offset in offsets {
            number += 1;
            At(base, &memory).write(offset, number);
        }
    };
    for ((_, plic), base) in controllers.plics.iter().zip(PLICS) {
        program(base, &mut plic.offsets());
    }
    if let Some((_, aplic)) = controllers.aplics.first() {
        program(APLIC, &mut aplic.offsets());
    }
    drop(controllers);
    memory
}

type Sections = Vec<(SectionKey, Vec<u32>)>;

fn capture(controllers: &Controllers<At<'_>>) -> Sections {
    let mut sections = Vec::new();
    let written = controllers.of(0).capture(None, |key, words| {
        sections.push((key, words.collect()));
        Ok::<_, ()>(())
    });
    written.unwrap();
    sections
}

fn check<'a>(
    controllers: &Controllers<At<'_>>,
    sections: &'a Sections,
) -> Result<ControllerState<'a>, (SectionKey, WrongLength)> {
    let take = |key| {
        let section = sections.iter().find(|(other, _)| *other == key);
        Ok(section.map(|(_, words)| &words[..]))
    };
    controllers.of(0).check(take, |key, length| (key, length))
}

#[test]
fn each_controller_has_a_section_of_its_own() {
    let described = described();
    let memory = programmed(&described);
    let sections = capture(&controllers(&described, &memory));
    let keys: Vec<_> = sections.iter().map(|(key, _)| *key).collect();
    let key = |owner, number| SectionKey {
        owner,
        number,
        version: 1,
    };
    let expected = [key(PLIC_OWNER, 0), key(PLIC_OWNER, 1), key(APLIC_OWNER, 0)];
    assert_eq!(keys, expected);
    // Priorities, one word of enables, the threshold; modes, targets, enables, domain.
    let lengths: Vec<_> = sections.iter().map(|(_, words)| words.len()).collect();
    assert_eq!(lengths, [3 + 2, 5 + 2, 2 + 2 + 1 + 1]);
    let all: Vec<u32> = sections.into_iter().flat_map(|(_, words)| words).collect();
    assert_eq!(all, (1..=18).collect::<Vec<_>>());
}

#[test]
fn what_was_programmed_comes_back_to_each() {
    let described = described();
    let before = programmed(&described);
    let sections = capture(&controllers(&described, &before));
    let after = Memory::default();
    let controllers = controllers(&described, &after);
    let state = check(&controllers, &sections).unwrap();
    assert!(after.borrow().is_empty(), "a check touches nothing");
    controllers.of(0).put_back(&state);
    controllers.of(0).reopen(&controllers.of(0).domains(&state));
    for (address, value) in before.borrow().iter() {
        assert_eq!(after.borrow().get(address), Some(value), "{address:#x}");
    }
}

#[test]
fn a_controller_without_a_section_stays_as_it_is() {
    let described = described();
    let memory = programmed(&described);
    let mut sections = capture(&controllers(&described, &memory));
    sections.retain(|(key, _)| (key.owner, key.number) == (PLIC_OWNER, 1));
    let after = Memory::default();
    let controllers = controllers(&described, &after);
    let state = check(&controllers, &sections).unwrap();
    controllers.of(0).put_back(&state);
    controllers.of(0).let_out(&state);
    assert_eq!(after.borrow().len(), 5 + 2);
    let second = PLICS[1]..ROOT;
    assert!(
        after
            .borrow()
            .keys()
            .all(|address| second.contains(address))
    );
}

#[test]
fn a_section_of_another_length_is_refused_by_its_key() {
    let described = described();
    let memory = programmed(&described);
    let controllers = controllers(&described, &memory);
    let sections = capture(&controllers);
    for (place, (key, words)) in sections.iter().enumerate() {
        let mut damaged = sections.clone();
        damaged[place].1.pop();
        let length = WrongLength {
            needed: words.len(),
            found: words.len() - 1,
        };
        assert_eq!(check(&controllers, &damaged).unwrap_err(), (*key, length));
    }
}

#[test]
fn an_error_of_the_section_ends_the_walk() {
    let described = described();
    let memory = programmed(&described);
    let controllers = controllers(&described, &memory);
    let mut asked = 0;
    let written = controllers.of(0).capture(None, |_, _| {
        asked += 1;
        if asked == 2 { Err("no room") } else { Ok(()) }
    });
    assert_eq!((written, asked), (Err("no room"), 2));
    let read = controllers
        .of(0)
        .check(|_| Err("malformed"), |_, _| "length");
    assert_eq!(read.unwrap_err(), "malformed");
}

#[test]
fn a_start_lets_all_priorities_through_and_delegates_only_to_somebody() {
    let mut described = described();
    let memory = programmed(&described);
    controllers(&described, &memory).start();
    for base in PLICS {
        assert_eq!(At(base, &memory).read(THRESHOLD), 0);
    }
    let roots = |memory: &Memory| memory.borrow().range(ROOT..APLIC).count();
    assert_ne!(roots(&memory), 0);
    described.os_aplics.clear();
    let memory = Memory::default();
    controllers(&described, &memory).start();
    assert_eq!(roots(&memory), 0);
}

#[test]
fn a_source_is_raised_where_there_is_a_domain_of_the_os() {
    let mut described = described();
    let memory = Memory::default();
    controllers(&described, &memory).raise(7);
    assert_eq!(*memory.borrow(), [(APLIC + SETIPNUM, 7)].into());
    described.os_aplics.clear();
    let memory = Memory::default();
    controllers(&described, &memory).raise(7);
    assert!(memory.borrow().is_empty());
}

/// What the OS had its domain do is kept although that is shut, and what comes meanwhile is
/// pending there.
#[test]
fn domains_that_are_shut_are_captured_as_they_were() {
    const DOMAINCFG: u64 = 0;
    const GENMSI: u64 = 0x3000;
    let described = described();
    let memory = programmed(&described);
    let registers = At(APLIC, &memory);
    registers.write(DOMAINCFG, 0x104);
    let controllers = controllers(&described, &memory);
    let before = capture(&controllers);
    assert!(!controllers.of(0).are_sending());
    registers.write(GENMSI, 1 << 12 | 7);
    let shut = controllers.of(0).shut();
    assert_eq!(registers.read(DOMAINCFG), 4, "its mode stays");
    assert!(
        controllers.of(0).are_sending(),
        "a hart's message is on its way"
    );
    let mut sections = Vec::new();
    let written = controllers.of(0).capture(Some(&shut), |key, words| {
        sections.push((key, words.collect::<Vec<_>>()));
        Ok::<_, ()>(())
    });
    assert_eq!((written, sections), (Ok(()), before));
    controllers.of(0).reopen(&shut);
    assert_eq!(registers.read(DOMAINCFG), 0x104);
}

/// As a hart wakes, which lets interrupts out once it is as it was.
#[test]
fn domains_open_as_a_state_has_them_and_others_as_they_are() {
    const DOMAINCFG: u64 = 0;
    let described = described();
    let before = programmed(&described);
    At(APLIC, &before).write(DOMAINCFG, 0x104);
    let sections = capture(&controllers(&described, &before));
    let after = Memory::default();
    let registers = At(APLIC, &after);
    let controllers = controllers(&described, &after);
    let state = check(&controllers, &sections).unwrap();
    controllers.of(0).put_back(&state);
    assert_eq!(registers.read(DOMAINCFG), 4, "nothing is let out");
    let none = Vec::new();
    registers.write(DOMAINCFG, 0x100);
    controllers.of(0).reopen(
        &controllers
            .of(0)
            .domains(&check(&controllers, &none).unwrap()),
    );
    assert_eq!(registers.read(DOMAINCFG), 0x100);
    controllers.of(0).reopen(&controllers.of(0).domains(&state));
    assert_eq!(registers.read(DOMAINCFG), 0x104);
}

#[test]
fn an_owner_reaches_its_own_controllers_alone() {
    let described = described();
    let before = programmed(&described);
    let after = Memory::default();
    let owner = |base| u8::from(base == PLICS[1]);
    let [from, into] = [&before, &after]
        .map(|memory| Controllers::new(&described, move |base| At(base, memory), owner));
    let mut sections = Sections::new();
    let written = from.of(1).capture(None, |key, words| {
        sections.push((key, words.collect()));
        Ok::<_, ()>(())
    });
    assert_eq!(written, Ok(()));
    let numbers: Vec<_> = sections
        .iter()
        .map(|(key, _)| (key.owner, key.number))
        .collect();
    assert_eq!(numbers, [(PLIC_OWNER, 0)]);
    let take = |key| {
        let mut sections = sections.iter();
        let found = sections.find(|(other, _)| *other == key);
        Ok::<_, (SectionKey, WrongLength)>(found.map(|(_, words)| &words[..]))
    };
    let state = into.of(1).check(take, |key, length| (key, length)).unwrap();
    into.of(1).put_back(&state);
    into.of(1).reopen(&into.of(1).domains(&state));
    let reached = after.borrow();
    assert!(!reached.is_empty());
    let own = |address: &u64| address >> 32 == PLICS[1] >> 32;
    assert!(reached.keys().all(own), "{reached:x?}");
}
