//! Commands that fail and power that goes, at every command of a sleep and of a
//! wake: whatever happens, an image wakes whole, or not at all, and never twice.

mod common;

use common::{Boot, MIB, Machine, NotAsleep, START, area, disk};
use poorwill_medium::Window;
use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault};
use poorwill_memory::Page;
use poorwill_store::{Area, DiscardReason, RecordFormat, StoreError};
use poorwill_vault::{FlashFault, VaultError};

/// A disk whose area has been in use: slot 0 holds an older, consumed image.
fn used_disk(machine: &mut Machine) -> FakeMedium {
    let mut disk = disk();
    machine.run(1000);
    machine.sleep(&mut disk).unwrap();
    assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    disk
}

/// Commands that a sleep takes.
fn commands_of_a_sleep() -> u64 {
    let mut machine = Machine::new();
    let mut disk = used_disk(&mut machine);
    disk.restart();
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    disk.log().len() as u64
}

fn has_image(disk: &mut FakeMedium) -> bool {
    let mut scratch = Page::ZERO;
    area(disk, &mut scratch).unwrap().newest().is_ok()
}

#[test]
fn a_sleep_with_a_failing_command_leaves_no_image() {
    let commands = commands_of_a_sleep();
    let mut asleep = 0;
    for n in 0..commands {
        for effect in [Effect::Fail, Effect::FailAfterwards, Effect::Stall] {
            let mut machine = Machine::new();
            let mut disk = used_disk(&mut machine);
            disk.restart();
            machine.run(n);
            let before = machine.memory.contents();
            disk.inject(Fault::nth(n, effect));
            let result = machine.sleep(&mut disk);
            if result.is_ok() {
                // It was one of the two reads of the configuration: without one the
                // machine is saved.
                asleep += 1;
                assert!(has_image(&mut disk));
                continue;
            }
            let in_doubt = matches!(result, Err(NotAsleep::InDoubt(_)));
            assert!(
                result.is_err() && !in_doubt,
                "command {n}, {effect:?}: {result:?}"
            );
            assert!(machine.memory.contents() == before, "the OS goes on");
            disk.restart();
            assert!(!has_image(&mut disk), "command {n}, {effect:?}");
        }
    }
    assert_eq!(asleep, 2 * 3);
}

#[test]
fn a_medium_that_dies_during_a_sleep_leaves_no_image_or_says_so() {
    let commands = commands_of_a_sleep();
    let mut doubts = 0;
    for n in 0..commands {
        for effect in [Effect::Fail, Effect::FailAfterwards] {
            let mut machine = Machine::new();
            let mut disk = used_disk(&mut machine);
            disk.restart();
            machine.run(n);
            disk.inject(Fault::from(n, effect));
            let result = machine.sleep(&mut disk);
            disk.restart();
            match result {
                Ok(()) => panic!("command {n} failed unnoticed"),
                Err(NotAsleep::InDoubt(_)) => doubts += 1,
                Err(_) => assert!(!has_image(&mut disk), "command {n}, {effect:?}"),
            }
        }
    }
    assert_eq!(
        doubts,
        2 * 3,
        "in doubt are only the record's write, flush and reading back"
    );
}

#[test]
fn a_device_that_lies_does_not_wake_a_wrong_memory() {
    let commands = commands_of_a_sleep();
    for n in 0..commands {
        let mut machine = Machine::new();
        let mut disk = used_disk(&mut machine);
        disk.restart();
        machine.run(n);
        let slept = machine.memory.contents();
        disk.inject(Fault::nth(n, Effect::Lie));
        let result = machine.sleep(&mut disk);
        disk.restart();
        machine.run(2000);
        match machine.boot(&mut disk) {
            Boot::Woken => {
                assert!(result.is_ok(), "command {n}");
                assert!(machine.memory.contents() == slept, "command {n}");
            }
            Boot::Failed(_)
            | Boot::Refused(_)
            | Boot::Cold(_)
            | Boot::LastWakeFailed(_)
            | Boot::Disabled(..) => {}
            Boot::Cleared => panic!("command {n}: no load was cut short"),
            Boot::Store(error) => panic!("command {n}: {error}"),
        }
        assert!(!has_image(&mut disk));
    }
}

#[test]
fn a_power_cut_during_a_sleep_leaves_all_or_nothing() {
    let commands = commands_of_a_sleep();
    let (mut whole, mut none) = (0, 0);
    for n in 0..=commands {
        for seed in 0..6 {
            let mut machine = Machine::new();
            let mut disk = used_disk(&mut machine).with_seed(seed);
            disk.restart();
            machine.run(n);
            let slept = machine.memory.contents();
            disk.inject(Fault::nth(n, Effect::PowerCut));
            let result = machine.sleep(&mut disk);
            disk.restart();
            machine.run(3000);
            match machine.boot(&mut disk) {
                Boot::Woken => {
                    whole += 1;
                    assert!(
                        machine.memory.contents() == slept,
                        "cut at command {n}, seed {seed}"
                    );
                }
                Boot::Cold(_) => {
                    none += 1;
                    assert!(result.is_err(), "a committed image must wake");
                }
                other => panic!("cut at command {n}, seed {seed}: {other:?}"),
            }
            assert!(
                matches!(machine.boot(&mut disk), Boot::Cold(_)),
                "never twice"
            );
        }
    }
    assert!(whole > 6 && none > 6, "{whole} whole, {none} none");
}

#[test]
fn a_power_cut_during_a_wake_never_wakes_twice() {
    let mut machine = Machine::new();
    let mut disk = used_disk(&mut machine);
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    disk.restart();
    machine.boot(&mut disk);
    let commands = disk.log().to_vec();
    let consuming = commands
        .iter()
        .position(|command| *command == Command::Write)
        .unwrap();
    let (mut again, mut gone) = (0, 0);
    for n in 0..commands.len() {
        for seed in 0..6 {
            let mut disk = used_disk(&mut machine).with_seed(seed);
            machine.run(1);
            let slept = machine.memory.contents();
            machine.sleep(&mut disk).unwrap();
            disk.restart();
            machine.run(4000);
            let untouched = machine.memory.contents();
            disk.inject(Fault::nth(n as u64, Effect::PowerCut));
            assert!(!matches!(machine.boot(&mut disk), Boot::Woken));
            // Loading starts only behind the consuming write and its flush.
            let loading = machine.memory.contents() != untouched;
            assert!(!loading || n > consuming + 1, "command {n}");
            disk.restart();
            machine.run(5000);
            match machine.boot(&mut disk) {
                Boot::Woken => {
                    again += 1;
                    assert!(
                        n <= consuming + 1,
                        "the mark is durable before anything is loaded"
                    );
                    assert!(machine.memory.contents() == slept);
                }
                Boot::Cold(_) => gone += 1,
                other => panic!("cut at command {n}, seed {seed}: {other:?}"),
            }
            assert!(
                matches!(machine.boot(&mut disk), Boot::Cold(_)),
                "never twice"
            );
        }
    }
    assert!(again > 6 && gone > 6, "{again} again, {gone} gone");
}

#[test]
fn failing_commands_of_a_wake_never_wake_twice() {
    let mut machine = Machine::new();
    for n in 0..40 {
        for effect in [
            Effect::Fail,
            Effect::FailAfterwards,
            Effect::Stall,
            Effect::Lie,
        ] {
            let mut disk = used_disk(&mut machine);
            machine.run(1);
            let slept = machine.memory.contents();
            machine.sleep(&mut disk).unwrap();
            disk.restart();
            machine.run(6000);
            disk.inject(Fault::nth(n, effect));
            let boot = machine.boot(&mut disk);
            if matches!(boot, Boot::Woken) {
                assert!(machine.memory.contents() == slept);
            }
            let kind = disk.log().get(usize::try_from(n).unwrap()).copied();
            disk.restart();
            let second = machine.boot(&mut disk);
            // When not even a record could be read, nothing was given up: the
            // image is there still, and has never been loaded. And nobody finds
            // out that a flush was acknowledged and not done.
            let unread = n < 2 && !matches!(boot, Boot::Woken);
            let unkept = effect == Effect::Lie && kind == Some(Command::Flush);
            assert!(
                unread || unkept || !matches!(second, Boot::Woken),
                "command {n}, {effect:?}: {boot:?}"
            );
        }
    }
}

#[test]
fn giving_up_is_durable_when_it_returns() {
    let mut machine = Machine::new();
    for n in 0..8 {
        for seed in 0..6 {
            let mut disk = used_disk(&mut machine).with_seed(seed);
            machine.run(1);
            machine.sleep(&mut disk).unwrap();
            disk.restart();
            disk.inject(Fault::nth(n, Effect::PowerCut));
            let mut scratch = Page::ZERO;
            let given_up = area(&mut disk, &mut scratch)
                .and_then(|mut area| area.discard_all(DiscardReason::ColdBoot));
            disk.restart();
            assert!(
                given_up.is_err() || !has_image(&mut disk),
                "cut at command {n}, seed {seed}"
            );
        }
    }
}

/// The record alone keeps an image from waking where the flash fails, and the
/// flash alone where the medium does.
#[test]
fn giving_up_tries_everything() {
    let mut machine = Machine::sealing();
    let mut disk = used_disk(&mut machine);
    machine.sleep(&mut disk).unwrap();
    let counter = machine.vault.as_mut().unwrap();
    counter.fail_next(VaultError::Flash(FlashFault::Device));
    let mut scratch = Page::ZERO;
    let window = Window::new(&mut disk, START, 7 * MIB).unwrap();
    let mut area = Area::open(window, &mut scratch, Some(counter), RecordFormat::Image).unwrap();
    let given_up = area.discard_all(DiscardReason::ColdBoot);
    assert!(
        matches!(given_up, Err(StoreError::Vault(_))),
        "{given_up:?}"
    );
    assert!(!has_image(&mut disk));

    machine.sleep(&mut disk).unwrap();
    disk.restart();
    disk.inject(Fault::from(2, Effect::Fail));
    let counter = machine.vault.as_mut().unwrap();
    let window = Window::new(&mut disk, START, 7 * MIB).unwrap();
    let mut area = Area::open(window, &mut scratch, Some(counter), RecordFormat::Image).unwrap();
    let given_up = area.discard_all(DiscardReason::ColdBoot);
    assert!(
        matches!(given_up, Err(StoreError::Medium(_))),
        "{given_up:?}"
    );
    disk.restart();
    assert!(has_image(&mut disk));
    assert!(matches!(
        machine.boot(&mut disk),
        Boot::Store(StoreError::Spent(_))
    ));
}
