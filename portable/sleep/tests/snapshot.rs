//! Snapshots: they wake again and again, whatever happens in between.

mod common;

use common::{Boot, MIB, Machine, START, disk, record_at};
use poorwill_medium::Window;
use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault};
use poorwill_memory::{Page, checksum, to_usize};
use poorwill_store::{
    Area, BootAttempts, Configuration, DiscardReason, Failure, Name, NoImage, RecordFormat,
    SlotState, SnapshotRules, StoreError,
};
use poorwill_vault::RollbackCounter;

/// Runs `job` on the area of a machine without a count.
fn on_area<R>(disk: &mut FakeMedium, job: impl FnOnce(&mut Area<'_, FakeMedium>) -> R) -> R {
    let mut scratch = Page::ZERO;
    let window = Window::new(disk, START, 7 * MIB).unwrap();
    job(&mut Area::open(window, &mut scratch, None, RecordFormat::Image).unwrap())
}

fn attempts(disk: &mut FakeMedium) -> Option<BootAttempts> {
    on_area(disk, |area| {
        area.snapshot().map(|(_, _, attempts)| attempts)
    })
}

fn says_well(disk: &mut FakeMedium) {
    on_area(disk, |area| area.snapshot_is_well().unwrap());
}

/// A machine that keeps a snapshot, taken with that memory.
fn kept(mut machine: Machine, seed: u64) -> (Machine, FakeMedium, Vec<Page>) {
    let mut disk = disk();
    machine.run(seed);
    let contents = machine.memory.contents();
    machine.keep(&mut disk).unwrap();
    (machine, disk, contents)
}

#[track_caller]
fn wakes_with(machine: &mut Machine, disk: &mut FakeMedium, contents: &[Page]) {
    machine.run(1_000_000);
    let boot = machine.boot(disk);
    assert!(matches!(boot, Boot::Woken), "{boot:?}");
    assert!(machine.memory.contents() == contents);
    assert!(machine.memory.gaps_are_intact());
}

#[test]
fn a_proven_snapshot_wakes_at_every_power_on_and_nothing_is_written() {
    for machine in Machine::both() {
        let (mut machine, mut disk, contents) = kept(machine, 1);
        wakes_with(&mut machine, &mut disk, &contents);
        says_well(&mut disk);
        disk.restart();
        let before = disk.bytes().to_vec();
        for _ in 0..20 {
            wakes_with(&mut machine, &mut disk, &contents);
            // Nothing new to say.
            says_well(&mut disk);
        }
        assert!(!disk.log().contains(&Command::Write));
        assert!(disk.bytes() == before);
    }
}

#[test]
fn on_trial_wakes_are_counted_until_it_is_given_up() {
    for machine in Machine::both() {
        let (mut machine, mut disk, contents) = kept(machine, 1);
        assert_eq!(attempts(&mut disk), Some(BootAttempts::default()));
        for tries in 1..=3 {
            wakes_with(&mut machine, &mut disk, &contents);
            assert_eq!(attempts(&mut disk).unwrap().tries, tries);
        }
        for _ in 0..2 {
            let boot = machine.boot(&mut disk);
            assert!(matches!(boot, Boot::Disabled(3, None)), "{boot:?}");
        }
        // Somebody has found out why, and mended it.
        says_well(&mut disk);
        assert_eq!(attempts(&mut disk), Some(BootAttempts::WELL));
        wakes_with(&mut machine, &mut disk, &contents);
    }
}

#[test]
fn how_often_is_configured() {
    for (limit, wakes) in [(1, 1), (5, 5), (0, 12)] {
        let (mut machine, mut disk, contents) = kept(Machine::new(), 1);
        let snapshots = SnapshotRules {
            tries: limit,
            ..SnapshotRules::default()
        };
        let configuration = Configuration {
            snapshots,
            ..Configuration::default()
        };
        on_area(&mut disk, |area| area.configure(&configuration).unwrap());
        disk.restart();
        for _ in 0..wakes {
            wakes_with(&mut machine, &mut disk, &contents);
        }
        assert_eq!(disk.log().contains(&Command::Write), limit != 0);
        let ends = matches!(machine.boot(&mut disk), Boot::Disabled(..));
        assert_eq!(ends, limit != 0);
    }
}

#[test]
fn a_reset_behind_a_wake_counts_against_a_proven_one() {
    let (mut machine, mut disk, contents) = kept(Machine::new(), 1);
    says_well(&mut disk);
    let reset = |disk: &mut FakeMedium, generation, ms| {
        on_area(disk, |area| {
            area.snapshot_was_reset(generation, ms).unwrap()
        });
    };
    reset(&mut disk, 2, 5);
    assert_eq!(attempts(&mut disk), Some(BootAttempts::WELL), "of another");
    for tries in 1..=3 {
        wakes_with(&mut machine, &mut disk, &contents);
        reset(&mut disk, 1, 5);
        let failure = Some(Failure::Reset(5));
        let found = BootAttempts {
            proven: true,
            tries,
            failure,
        };
        assert_eq!(attempts(&mut disk), Some(found));
    }
    let boot = machine.boot(&mut disk);
    let last = Some(Failure::Reset(5));
    assert!(
        matches!(boot, Boot::Disabled(3, failure) if failure == last),
        "{boot:?}"
    );
}

#[test]
fn a_wake_that_cannot_be_loaded_counts_once() {
    for proven in [false, true] {
        let (mut machine, mut disk, _) = kept(Machine::new(), 1);
        if proven {
            says_well(&mut disk);
        }
        // In the page data: slot 0 begins at 1 MiB, its data at the next.
        disk.flip(START + 2 * MIB, 0);
        for tries in 1..=3 {
            let boot = machine.boot(&mut disk);
            let wanted = Failure::DamagedPiece(0);
            assert!(
                matches!(boot, Boot::Failed(failure) if failure == wanted),
                "{boot:?}"
            );
            assert_eq!(attempts(&mut disk).unwrap().tries, tries);
        }
        let boot = machine.boot(&mut disk);
        let wanted = Some(Failure::DamagedPiece(0));
        assert!(
            matches!(boot, Boot::Disabled(3, failure) if failure == wanted),
            "{boot:?}"
        );
    }
}

#[test]
fn a_later_sleep_goes_first_and_leaves_the_snapshot() {
    for machine in Machine::both() {
        let (mut machine, mut disk, contents) = kept(machine, 1);
        says_well(&mut disk);
        for seed in 2..10 {
            wakes_with(&mut machine, &mut disk, &contents);
            machine.run(seed);
            let later = machine.memory.contents();
            machine.sleep(&mut disk).unwrap();
            wakes_with(&mut machine, &mut disk, &later);
        }
        wakes_with(&mut machine, &mut disk, &contents);
    }
}

#[test]
fn behind_a_snapshots_wake_no_older_image_wakes() {
    let (mut machine, mut disk, contents) = kept(Machine::new(), 1);
    machine.run(2);
    machine.sleep(&mut disk).unwrap();
    // The record of the sleep cannot be read when the snapshot wakes.
    let record = record_at(1);
    disk.flip(record + 24, 0);
    wakes_with(&mut machine, &mut disk, &contents);
    disk.flip(record + 24, 0);
    wakes_with(&mut machine, &mut disk, &contents);
}

#[test]
fn a_new_snapshot_takes_the_place_of_the_old() {
    for machine in Machine::both() {
        let (mut machine, mut disk, _) = kept(machine, 1);
        for seed in 2..7 {
            machine.run(seed);
            let newer = machine.memory.contents();
            machine.keep(&mut disk).unwrap();
            wakes_with(&mut machine, &mut disk, &newer);
            wakes_with(&mut machine, &mut disk, &newer);
        }
    }
}

#[test]
fn a_power_cut_while_one_is_taken_leaves_the_old_or_the_new() {
    for machine in [Machine::new as fn() -> Machine, Machine::sealing] {
        let commands = {
            let (mut machine, mut disk, _) = kept(machine(), 1);
            disk.restart();
            machine.run(2);
            machine.keep(&mut disk).unwrap();
            disk.log().len() as u64
        };
        let (mut old, mut new) = (0, 0);
        for n in 0..=commands {
            for seed in 0..4 {
                let (mut machine, disk, before) = kept(machine(), 1);
                let mut disk = disk.with_seed(seed);
                disk.restart();
                machine.run(2);
                let after = machine.memory.contents();
                disk.inject(Fault::nth(n, Effect::PowerCut));
                let result = machine.keep(&mut disk);
                disk.restart();
                machine.run(3);
                let boot = machine.boot(&mut disk);
                assert!(matches!(boot, Boot::Woken), "command {n}: {boot:?}");
                let contents = machine.memory.contents();
                assert!(contents == after || contents == before && result.is_err());
                old += u64::from(contents == before);
                new += u64::from(contents == after);
            }
        }
        assert!(old > 10 && new > 1, "{old} {new}");
    }
}

#[test]
fn a_deleted_snapshot_is_gone_and_no_older_one_comes_back() {
    let (mut machine, mut disk, _) = kept(Machine::new(), 1);
    machine.run(2);
    machine.keep(&mut disk).unwrap();
    on_area(&mut disk, |area| {
        let states = |area: &Area<'_, _>| area.slots().map(|slot| slot.record().unwrap().state);
        let replaced = SlotState::Discarded(DiscardReason::NewSleep);
        assert!(
            states(area).contains(&replaced),
            "as the newer one was kept"
        );
        area.delete_snapshot().unwrap();
        assert_eq!(area.delete_snapshot(), Err(StoreError::NoSnapshot));
        let deleted = SlotState::Discarded(DiscardReason::Deleted);
        assert!(states(area).contains(&replaced) && states(area).contains(&deleted));
    });
    assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
}

#[test]
fn a_snapshot_has_a_name() {
    let (_, mut disk, _) = kept(Machine::new(), 1);
    let name: Name = "kiosk".parse().unwrap();
    on_area(&mut disk, |area| area.name_snapshot(name).unwrap());
    let found = on_area(&mut disk, |area| area.snapshot().unwrap().1.name);
    assert_eq!(found, name);
}

/// Gives the record in slot 0 another state, its checksum made to fit.
fn forge_state(disk: &mut FakeMedium, state: u32) {
    let record = to_usize(record_at(0));
    disk.edit(|bytes| {
        let bytes = &mut bytes[record..][..512];
        bytes[12..16].copy_from_slice(&state.to_le_bytes());
        let (chunks, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = chunks
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let checksum = checksum::of_words_but(&words, 2);
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
    });
}

#[test]
fn no_other_image_becomes_a_snapshot_by_its_record() {
    for mut machine in Machine::both() {
        let mut disk = disk();
        machine.run(1);
        machine.sleep(&mut disk).unwrap();
        forge_state(&mut disk, 4);
        machine.run(2);
        let before = machine.memory.contents();
        assert!(matches!(machine.boot(&mut disk), Boot::Refused(_)));
        assert!(machine.memory.contents() == before);
    }
}

#[test]
fn a_sealed_machine_wakes_no_snapshot_that_was_put_back() {
    let (mut machine, mut disk, _) = kept(Machine::sealing(), 1);
    let older = disk.bytes().to_vec();
    machine.run(2);
    machine.keep(&mut disk).unwrap();
    disk.edit(|bytes| bytes.copy_from_slice(&older));
    let boot = machine.boot(&mut disk);
    assert!(
        matches!(boot, Boot::Store(StoreError::NotKeptHere(1))),
        "{boot:?}"
    );
    // And none that was deleted.
    let counter = machine.vault.as_mut().unwrap();
    counter.keep(None).unwrap();
    let boot = machine.boot(&mut disk);
    assert!(
        matches!(boot, Boot::Store(StoreError::NotKeptHere(1))),
        "{boot:?}"
    );
}

#[test]
fn one_wrong_read_of_its_record_costs_no_snapshot() {
    let (_, mut disk, _) = kept(Machine::new(), 1);
    for (wrong, is_there) in [(0, true), (1, true), (2, false)] {
        disk.restart();
        disk.inject(Fault {
            command: Some(Command::Read),
            first: 0,
            count: wrong,
            effect: Effect::Misread,
        });
        let found = on_area(&mut disk, |area| area.snapshot().is_some());
        assert_eq!(found, is_there, "{wrong} wrong");
    }
}
