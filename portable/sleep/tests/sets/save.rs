//! A set that is saved, or refused by name.

use std::cell::Cell;
use std::rc::Rc;

use poorwill_image::SaveError;
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::linux::FreeListError;
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_sleep::fake::FakeMachine;
use poorwill_sleep::retain::Source;
use poorwill_sleep::{ColdBoot, NoSleep, NoWake, NotKept, Obstacle, Outcome, Slept};
use poorwill_store::{
    Configuration, Name, NoImage, PartError, RecordFormat, SleepMode, SlotId, StoreError,
};
use poorwill_vault::fake::FakeCounter;
use poorwill_vault::{Key, KeyVault, RollbackCounter};

use crate::machine::{
    Boots, MIB, Machine, NAMES, Setup, disk, disk_of, has_set, is_asleep, on_area, refusal, state,
};

const MS: u64 = 1_000_000;

fn configure(disk: &mut FakeMedium, configuration: &Configuration) {
    on_area(disk, |area| area.configure(configuration).unwrap()).unwrap();
}

fn of_mode(mode: SleepMode) -> Configuration {
    Configuration {
        mode: Some(mode),
        stage_delay_ms: 5_000,
        ..Configuration::default()
    }
}

/// A sleep that leaves memory and disk to the OSes.
#[track_caller]
fn goes_on(disk: &mut FakeMedium, setup: Setup<'_>) -> (Slept, Vec<String>) {
    let mut machine = Machine::new(3);
    machine.run(1);
    let (slept, said) = machine.try_sleep(disk, 1, setup);
    assert!(machine.all_hold(1), "the OSes go on with their memory");
    assert!(!has_set(disk), "{slept:?}");
    (slept, said)
}

#[test]
fn the_console_tells_of_all_parts_at_once() {
    let (mut machine, mut disk) = (Machine::new(3), disk());
    machine.run(1);
    let (slept, said) = machine.try_sleep(&mut disk, 1, &|_| ());
    assert!(is_asleep(&slept), "{slept:?}");
    let [free @ .., line] = &said[..] else {
        panic!("nothing is said");
    };
    assert_eq!(free.len(), 3, "{said:?}");
    let image_bytes: u64 = on_area(&mut disk, |area| {
        let slot = area.newest().unwrap().slot();
        area.parts(slot).iter().map(|part| part.bytes).sum()
    })
    .unwrap();
    // Each seventh page is zero: one of 9, and 42 of 300.
    let zeros = 1 + 42;
    let used = (314 - zeros) * 4096;
    let wanted = format!("sleep mode=persist used_bytes={used} saved_bytes={image_bytes} ms=");
    assert!(line.starts_with(&wanted), "{line} is not {wanted}");
    assert!(
        line.ends_with("free_bytes=0 sealed=no generation=1"),
        "{line}"
    );
}

/// One bar for all would be full after the first image.
#[test]
fn each_image_has_a_progress_bar() {
    let (mut machine, mut disk) = (Machine::new(3), disk());
    machine.run(1);
    let bars = Rc::new(Cell::new(0));
    let setup = |machine: &mut FakeMachine<'_>| machine.bars = Rc::clone(&bars);
    let (slept, _) = machine.try_sleep(&mut disk, 1, &setup);
    assert!(is_asleep(&slept), "{slept:?}");
    assert_eq!(bars.take(), 3);
    machine.boot_with(&mut disk, None, &setup);
    assert_eq!(bars.take(), 3);
}

#[test]
fn a_hart_that_does_not_answer_refuses_the_sleep_of_all() {
    for late in 0..3 {
        let (slept, _) = goes_on(&mut disk(), &|machine| machine.domains[late].is_late = true);
        let error = NoSleep::State(NotKept::LateHart(0));
        assert_eq!(refusal(slept), error);
    }
}

#[test]
fn an_obstacle_of_one_domain_refuses_the_sleep_of_all() {
    for domain in 0..3 {
        let (slept, _) = goes_on(&mut disk(), &|machine| {
            machine.domains[domain].free_list = FreeListError::Added(0x7000);
        });
        let error = NoSleep::Obstacle(Obstacle::AddedMemory(0x7000));
        assert_eq!(refusal(slept), error);
    }
}

#[test]
fn domains_of_one_name_are_refused() {
    let (slept, _) = goes_on(&mut disk(), &|machine| {
        machine.domains[2].name = NAMES[0].to_owned();
    });
    let error = refusal(slept);
    assert!(
        matches!(
            error,
            NoSleep::Store(StoreError::Part(PartError::SameName(_)))
        ),
        "{error:?}"
    );
}

/// Puts three domains to sleep in slots of this number of MiB.
fn sleep_in(machine: &mut Machine, slot_mib: u64) -> Slept {
    let mut disk = disk_of(slot_mib);
    let slept = machine.sleep(&mut disk, 1);
    let boot = machine.boot(&mut disk);
    assert_eq!(boot.cold().is_none(), is_asleep(&slept));
    slept
}

/// Each domain but the first is the one for which there is no room. A part has a MiB before its
/// pages.
#[test]
fn a_slot_without_room_for_all_parts_is_refused_by_name() {
    let mut machine = Machine::new(3);
    for (slot_mib, rest_bytes) in [
        (2, MIB - 5 * PAGE_BYTES),
        (3, MIB - 13 * PAGE_BYTES),
        (4, 2 * MIB - 13 * PAGE_BYTES),
    ] {
        machine.run(1);
        let error = refusal(sleep_in(&mut machine, slot_mib));
        assert!(
            matches!(
                error,
                NoSleep::Save(SaveError::TooSmall { needed_bytes, slot_bytes })
                    if needed_bytes > rest_bytes && slot_bytes == rest_bytes
            ),
            "{slot_mib} MiB: {error:?}"
        );
        assert!(machine.all_hold(1));
    }
    assert!(is_asleep(&sleep_in(&mut machine, 5)));
}

#[test]
fn a_part_that_leaves_no_room_is_followed_by_none() {
    let mut machine = Machine::new(4);
    machine.run(1);
    // A MiB of pages that are not zero.
    for index in 0..300 {
        let mut page = Page::ZERO;
        page.0[0] = if index < 256 { index * index + 1 } else { 0 };
        machine.memories[2].set(index, &page);
    }
    let mut disk = disk_of(2);
    let asleep = [false, false, true, true];
    let (slept, _) = machine.sleep_those(&mut disk, 1, &asleep, None, &|_| ());
    let error = refusal(slept);
    assert!(
        matches!(
            error,
            NoSleep::Save(SaveError::TooSmall { slot_bytes: 0, .. })
        ),
        "{error:?}"
    );
}

#[test]
fn a_snapshot_of_domains_is_refused_by_name_and_the_machine_retains() {
    let mut disk = disk();
    let snapshot = Configuration {
        next_snapshot: Some(Name::NONE),
        ..Configuration::default()
    };
    configure(&mut disk, &snapshot);
    let (slept, said) = goes_on(&mut disk, &|machine| {
        machine.wakes_at = Some((Source::Timer, 70 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let lines = [
        "the machine cannot be saved: there are no snapshots of domains: \
         `poorwill area set` changes the configuration",
        "sleep mode=retain",
    ];
    assert_eq!(said[..2], lines);
    assert!(
        said[2].starts_with("wake mode=retain source=timer"),
        "{said:?}"
    );
    // The request stays, as the user was told how to take it back.
    let kept = on_area(&mut disk, |area| area.configuration());
    assert_eq!(kept, Ok(Ok(snapshot)));
}

#[test]
fn the_configuration_chooses_the_mode() {
    // With a wake event before the delay's end.
    for (mode, line) in [
        (SleepMode::Retain, "sleep mode=retain"),
        (SleepMode::Staged, "sleep mode=staged stage_after_ms=5000"),
        (SleepMode::Auto, "sleep mode=staged stage_after_ms=7000"),
    ] {
        let mut disk = disk();
        let configuration = Configuration {
            break_even_ms: 7_000,
            ..of_mode(mode)
        };
        configure(&mut disk, &configuration);
        let (slept, said) = goes_on(&mut disk, &|machine| {
            machine.wakes_at = Some((Source::Timer, 4_000 * MS));
        });
        assert!(matches!(slept, Slept::Awake), "{mode:?} {slept:?}");
        assert_eq!(said[0], line);
    }
    // Without one.
    for mode in [
        SleepMode::Staged,
        SleepMode::Auto,
        SleepMode::Persist,
        SleepMode::Cut,
    ] {
        let (mut machine, mut disk) = (Machine::new(3), disk());
        let configuration = Configuration {
            break_even_ms: 7_000,
            ..of_mode(mode)
        };
        configure(&mut disk, &configuration);
        machine.run(1);
        let (slept, said) = machine.try_sleep(&mut disk, 1, &|_| ());
        assert!(is_asleep(&slept), "{mode:?} {slept:?}");
        let is_staged = said.iter().any(|line| line.starts_with("staged cause="));
        assert_eq!(
            is_staged,
            matches!(mode, SleepMode::Staged | SleepMode::Auto)
        );
        machine.run(2);
        assert_eq!(machine.boot(&mut disk).woke, Boots::Awake);
        assert!(machine.all_hold(1));
    }
}

/// A wake event while the domains are saved, before each of them and after the last one.
#[test]
fn a_staged_sleep_is_abandoned_for_all_domains() {
    let mut ends = [0; 2];
    for at in 5_000..5_020 {
        let (mut machine, mut disk) = (Machine::new(3), disk());
        configure(&mut disk, &of_mode(SleepMode::Staged));
        machine.run(1);
        let (slept, said) = machine.try_sleep(&mut disk, 1, &|machine| {
            machine.step_ticks = MS;
            machine.wakes_at = Some((Source::Timer, at * MS));
        });
        let asleep = is_asleep(&slept);
        ends[usize::from(asleep)] += 1;
        assert_eq!(has_set(&mut disk), asleep);
        assert!(machine.all_hold(1));
        assert!(asleep || matches!(slept, Slept::Awake), "{slept:?}");
        assert!(said.len() > 1);
    }
    assert!(ends[0] > 2 && ends[1] > 2, "{ends:?}");
}

#[test]
fn a_machine_whose_disks_are_all_its_domains_retains() {
    let mut disk = disk();
    let (slept, said) = goes_on(&mut disk, &|machine| {
        machine.only_retains = true;
        machine.wakes_at = Some((Source::Timer, 70 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    assert_eq!(said[0], "sleep mode=retain");
    // No image is looked for, and none is discarded.
    let mut machine = Machine::new(3);
    machine.run(1);
    machine.sleep(&mut disk, 1);
    let boot = machine.boot_with(&mut disk, None, &|machine| machine.only_retains = true);
    assert_eq!(boot.cold(), Some(ColdBoot::Domains));
    assert!(has_set(&mut disk));
}

#[test]
fn each_machine_refuses_the_others_image_by_name() {
    for (own, other) in [
        (RecordFormat::Image, RecordFormat::Set),
        (RecordFormat::Set, RecordFormat::Image),
    ] {
        let (mut machine, mut disk) = (Machine::new(1), disk());
        machine.run(1);
        let (slept, _) = machine.try_sleep(&mut disk, 1, &|machine| machine.format = own);
        assert!(is_asleep(&slept), "{slept:?}");
        machine.run(2);
        let boot = machine.boot_with(&mut disk, None, &|machine| machine.format = other);
        let slot = SlotId::First;
        let reason = NoImage::OtherMachine { slot, of: own };
        assert_eq!(boot.cold(), Some(NoWake::from(reason).into()));
        assert!(boot.ends.is_empty() && machine.holds(0, 2));
        // It was discarded: the OS that started may have written to the disks.
        let boot = machine.boot_with(&mut disk, None, &|machine| machine.format = own);
        assert!(boot.cold().is_some() && machine.holds(0, 2));
    }
}

/// A set is plain. Otherwise the parts before one that fails would stay sealed in memory.
#[test]
fn a_machine_with_a_vault_counts_its_sets_and_does_not_seal_them() {
    let mut counter = FakeCounter::new(6).with_key(Key::new(&[7; 32]));
    let (mut machine, mut disk) = (Machine::new(3), disk());
    machine.run(1);
    let late: Setup<'_> = &|machine| machine.domains[2].is_late = true;
    let all = [true; 8];
    let vault = Some(&mut counter as &mut dyn KeyVault);
    let (slept, _) = machine.sleep_those(&mut disk, 1, &all, vault, late);
    assert_eq!(refusal(slept), NoSleep::State(NotKept::LateHart(0)));
    assert!(machine.all_hold(1));
    let vault = Some(&mut counter as &mut dyn KeyVault);
    let (slept, said) = machine.sleep_those(&mut disk, 1, &all, vault, &|_| ());
    assert!(is_asleep(&slept) && machine.all_hold(1), "{slept:?}");
    assert!(said.last().unwrap().contains("sealed=no"), "{said:?}");
    assert_eq!(counter.armed(), Some(8));
    let copy = disk.bytes().to_vec();
    machine.run(2);
    let boot = machine.boot_with(&mut disk, Some(&mut counter), &|_| ());
    assert_eq!(boot.end(2), Some(Outcome::Wakes(state(2, 1))));
    assert!(machine.all_hold(1));
    // A copy of the disk does not wake again.
    disk.edit(|bytes| bytes.copy_from_slice(&copy));
    machine.run(3);
    let boot = machine.boot_with(&mut disk, Some(&mut counter), &|_| ());
    assert!(boot.cold().is_some() && machine.all_hold(3), "{boot:?}");
}
