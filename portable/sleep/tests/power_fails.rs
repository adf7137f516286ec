//! The power fails in a sleep that saves: it is given up at whatever it was about, nothing is
//! committed, and what it had sealed is opened behind the cut. The machine can sleep again.

mod common;

use common::{Boot, Machine, START, area, disk};
use poorwill_image::{NotOpened, SealedMemory, SealingKey, Workspace, open_in_place};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{EntryPoint, Page};
use poorwill_sleep::Slept;
use poorwill_sleep::fake::{FakeHarts, FakeMachine};
use poorwill_vault::KeyVault;

const AREA_BYTES: u64 = 7 << 20;

/// What a sleep came to in which the power fails at a look, and how often it has looked.
fn sleep_until(machine: &mut Machine, disk: &mut FakeMedium, at: Option<u64>) -> (Slept, u64) {
    let vault = machine.vault.as_mut();
    let vault = vault.map(|vault| vault as &mut dyn KeyVault);
    let mut fake = FakeMachine::new(disk, START, AREA_BYTES, vault);
    fake.harts.power_fails_at = at;
    let vector = EntryPoint {
        address: 0,
        argument: 0,
    };
    let slept = fake.sleep(machine.memory.os(), vector, &mut machine.work.lend());
    (slept, fake.harts.looks.into_inner())
}

/// Opens what is sealed, with the power failing again on the way.
fn open(machine: &mut Machine, mut sealed: SealedMemory) {
    for looks in 50.. {
        let os = machine.memory.os();
        let work = machine.work.lend();
        let mut workspace = Workspace::new(work.workspace, os.pages()).unwrap();
        let harts = FakeHarts {
            power_fails_at: Some(looks),
            ..FakeHarts::default()
        };
        let key = SealingKey::new([7; 32]);
        match open_in_place(sealed, &key, os, &mut workspace, &harts) {
            Ok(()) => return,
            Err(NotOpened::PowerFails(left)) => sealed = left,
            Err(error) => panic!("{error}"),
        }
    }
}

fn has_image(disk: &mut FakeMedium) -> bool {
    let mut scratch = Page::ZERO;
    area(disk, &mut scratch).unwrap().newest().is_ok()
}

fn at_each(mut machine: impl FnMut() -> Machine) {
    let looks = {
        let mut machine = machine();
        machine.run(1);
        let (slept, looks) = sleep_until(&mut machine, &mut disk(), None);
        assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
        looks
    };
    let mut sealed_once = false;
    // All of the first and of the last, and some of those between.
    let chosen = (0..looks).filter(|at| *at < 20 || at % 61 == 0 || at + 20 > looks);
    for at in chosen {
        let (mut machine, mut disk) = (machine(), disk());
        machine.run(at);
        let before = machine.memory.contents();
        let (slept, _) = sleep_until(&mut machine, &mut disk, Some(at));
        let Slept::PowerFails {
            has_slept: false,
            sealed,
        } = slept
        else {
            panic!("look {at} of {looks}: {slept:?}");
        };
        assert!(!has_image(&mut disk), "look {at} of {looks}");
        if let Some(sealed) = sealed {
            sealed_once |= machine.memory.contents() != before;
            open(&mut machine, sealed);
        }
        assert!(machine.memory.contents() == before, "look {at} of {looks}");
        machine.sleep(&mut disk).unwrap();
        machine.run(1000);
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
        assert!(machine.memory.contents() == before, "look {at} of {looks}");
    }
    assert_eq!(sealed_once, machine().vault.is_some());
}

#[test]
fn a_plain_sleep_is_given_up_at_each_look() {
    at_each(Machine::new);
}

#[test]
fn a_sealed_sleep_is_given_up_at_each_look() {
    at_each(Machine::sealing);
}
