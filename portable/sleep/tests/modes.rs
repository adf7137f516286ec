//! Which sleep it is, and what follows when one does not go as it should.

mod common;

use std::collections::BTreeSet;
use std::rc::Rc;

use common::{MIB, START, area, disk};
use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault};
use poorwill_medium::nvme::{Identifiers, SharedNamespace};
use poorwill_medium::{Medium, Window};
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::linux::FreeListError;
use poorwill_memory::{EntryPoint, PAGE_BYTES, Page};
use poorwill_pci::{Function, InUse};
use poorwill_sleep::cut::fake::FakeRecord;
use poorwill_sleep::cut::{CutCause, CutReason, Found, Guard, find};
use poorwill_sleep::fake::{FakeMachine, FakeWork};
use poorwill_sleep::retain::Source;
use poorwill_sleep::{
    AreaError, ColdBoot, FunctionInUse, MediumId, NoSleep, NoWake, Obstacle, Outcome, Slept,
    VaultState, Woke,
};
use poorwill_store::{
    Area, Configuration, GptError, Name, NoImage, RecordFormat, SleepMode, SnapshotRules,
};

const MS: u64 = 1_000_000;

/// Why a cut is refused.
const UNKEPT: CutReason = CutReason::LiveDevice(0x1000_8000);

const STAGED: Configuration = Configuration {
    next_snapshot: None,
    accepts_unguarded: false,
    snapshots: SnapshotRules {
        tries: 3,
        trial_ms: 60_000,
        key_ms: 0,
    },
    mode: Some(SleepMode::Staged),
    stage_delay_ms: 5_000,
    break_even_ms: 0,
};

/// A disk whose area is configured so.
fn configured(configuration: Configuration) -> FakeMedium {
    let mut disk = disk();
    let mut scratch = Page::ZERO;
    let mut area = area(&mut disk, &mut scratch).unwrap();
    area.configure(&configuration).unwrap();
    disk
}

/// A configuration that says this mode, and nothing else.
fn of_mode(mode: Option<SleepMode>) -> Configuration {
    Configuration {
        mode,
        stage_delay_ms: 5_000,
        ..Configuration::default()
    }
}

/// The record of a machine of two harts, of which one runs; its cuts fail for that.
fn persistent(fails: Option<CutReason>) -> FakeRecord {
    let mut record = FakeRecord::new(&[true, false]);
    record.fails = fails;
    record
}

/// Memory of a few pages, each of which holds something else.
fn memory() -> FakeMemory {
    let mut memory = FakeMemory::new(&[3, 20]);
    for index in 0..23 {
        let mut page = Page::ZERO;
        page.0[7] = index + 1;
        memory.set(index, &page);
    }
    memory
}

/// Puts the machine that `prepare` makes to sleep on a disk. What it came to, and
/// what the machine said.
fn put_to_sleep(
    disk: &mut FakeMedium,
    prepare: impl FnOnce(&mut FakeMachine<'_>),
) -> (Slept, Vec<String>) {
    let mut memory = memory();
    let before = memory.contents();
    let mut work = FakeWork::new(memory.os().pages());
    let mut machine = FakeMachine::new(disk, START, 7 * MIB, None);
    prepare(&mut machine);
    let vector = EntryPoint {
        address: 0,
        argument: 0,
    };
    let slept = machine.sleep(memory.os(), vector, &mut work.lend());
    let said = machine.said.take();
    assert!(
        memory.contents() == before,
        "the OS goes on with its memory"
    );
    (slept, said)
}

fn has_image(disk: &mut FakeMedium) -> bool {
    let mut scratch = Page::ZERO;
    area(disk, &mut scratch).unwrap().newest().is_ok()
}

#[track_caller]
fn assert_said(said: &[String], wanted: &[&str]) {
    assert_eq!(said.len(), wanted.len(), "{said:?}");
    for (line, wanted) in said.iter().zip(wanted) {
        assert!(line.starts_with(wanted), "{line:?} is not {wanted:?}");
    }
}

#[test]
fn a_new_area_has_the_machine_saved_at_once() {
    let mut disk = disk();
    let (slept, said) = put_to_sleep(&mut disk, |_| ());
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    assert_said(&said, &["free pages are saved too", "sleep mode=persist"]);
    assert!(has_image(&mut disk));
}

#[test]
fn a_machine_with_persistent_ram_is_cut_unless_another_mode_was_chosen_by_name() {
    let mut new = disk();
    let mut with_delay_alone = configured(of_mode(None));
    let mut cut_by_name = configured(of_mode(Some(SleepMode::Cut)));
    for disk in [&mut new, &mut with_delay_alone, &mut cut_by_name] {
        let (slept, said) = put_to_sleep(disk, |machine| machine.record = Some(persistent(None)));
        assert!(matches!(slept, Slept::Cut(_)), "{slept:?}");
        assert_said(&said, &["sleep mode=cut"]);
        assert!(!has_image(disk));
    }
    let mut disk = configured(of_mode(Some(SleepMode::Persist)));
    let (slept, said) = put_to_sleep(&mut disk, |machine| machine.record = Some(persistent(None)));
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    assert_said(&said, &["free pages are saved too", "sleep mode=persist"]);
    for mode in [SleepMode::Retain, SleepMode::Staged, SleepMode::Auto] {
        let mut disk = configured(of_mode(Some(mode)));
        let (slept, said) = put_to_sleep(&mut disk, |machine| {
            machine.record = Some(persistent(None));
            machine.wakes_at = Some((Source::Timer, 4_999 * MS));
        });
        assert!(matches!(slept, Slept::Awake), "{slept:?}");
        assert!(said[0].starts_with("sleep mode="), "{said:?}");
        assert!(!said[0].contains("cut"), "{said:?}");
    }
    let mut disk = configured(SNAPSHOT);
    let (slept, _) = put_to_sleep(&mut disk, |machine| machine.record = Some(persistent(None)));
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
}

#[test]
fn without_an_area_it_is_cut_too_and_one_that_cannot_be_read_is_as_none() {
    let mut disk = configured(of_mode(Some(SleepMode::Persist)));
    let (slept, _) = put_to_sleep(&mut disk, |machine| {
        machine.record = Some(persistent(None));
        machine.has_area = false;
    });
    assert!(matches!(slept, Slept::Cut(_)), "{slept:?}");
    disk.inject(Fault {
        command: Some(Command::Read),
        ..Fault::from(0, Effect::Fail)
    });
    let (slept, said) = put_to_sleep(&mut disk, |machine| machine.record = Some(persistent(None)));
    assert!(matches!(slept, Slept::Cut(_)), "{slept:?}");
    assert_said(
        &said,
        &[
            "the sleep area's configuration cannot be read",
            "sleep mode=cut",
        ],
    );
}

/// It falls back to what comes next, and says why.
#[test]
fn a_cut_that_is_refused_is_a_sleep_that_saves_or_rests() {
    let refused = [
        "sleep mode=cut",
        "the machine cannot be cut: the device at 0x10008000 is in use",
    ];
    for mode in [None, Some(SleepMode::Cut)] {
        let mut disk = configured(of_mode(mode));
        let (slept, said) = put_to_sleep(&mut disk, |machine| {
            machine.record = Some(persistent(Some(UNKEPT)));
        });
        assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
        let saved = ["free pages are saved too", "sleep mode=persist"];
        assert_said(&said, &[&refused[..], &saved[..]].concat());
        assert!(has_image(&mut disk));
    }
    let mut disk = disk();
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.record = Some(persistent(Some(UNKEPT)));
        machine.has_area = false;
        machine.wakes_at = Some((Source::Console, 9_000 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let rested = [
        "the machine cannot be saved: no sleep area",
        "sleep mode=retain",
        "wake mode=retain source=console",
    ];
    assert_said(&said, &[&refused[..], &rested[..]].concat());
    let mut disk = configured(of_mode(None));
    let starts = Rc::default();
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.record = Some(persistent(Some(UNKEPT)));
        machine
            .obstacle
            .set(Some(Obstacle::LiveDevice(0x1000_8000)));
        machine.starts = Rc::clone(&starts);
    });
    assert!(
        matches!(slept, Slept::Refused(NoSleep::Obstacle(_))),
        "{slept:?}"
    );
    assert_said(&said, &refused);
    assert_eq!(starts.get(), 1, "the disk is started once");
}

/// The OS goes on, for the instant at which it is cut; nothing is saved meanwhile.
#[test]
fn a_machine_whose_power_fails_as_it_is_to_be_cut_wakes() {
    let mut disk = disk();
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.record = Some(persistent(None));
        machine.power_fails = true;
        machine.wakes_at = Some((Source::PowerFail, 0));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let wanted = [
        "sleep mode=cut",
        "the machine cannot be cut: the power fails",
        "sleep mode=retain",
        "wake mode=retain source=power-fail",
    ];
    assert_said(&said, &wanted);
    assert!(!has_image(&mut disk));
}

/// One that was refused is nothing that the next start has to say, and the next is told from
/// one by the line.
#[test]
fn a_refused_cut_leaves_no_trace_and_the_next_is_one() {
    let mut record = persistent(Some(UNKEPT));
    let found = |record: &FakeRecord| find(record, &Guard::at_start(VaultState::Absent));
    record.request().unwrap_err();
    assert_eq!(found(&record), Found::Nothing);
    record.fails = None;
    record.request().unwrap();
    let Found::Cut(report) = found(&record) else {
        panic!("it is committed");
    };
    assert_eq!((report.sequence, report.cause), (2, CutCause::Requested));
}

#[test]
fn a_machine_that_cannot_switch_itself_off_rests() {
    let mut disk = disk();
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.can_power_off = false;
        machine.wakes_at = Some((Source::Alarm, 90 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let wanted = [
        "the machine cannot be saved: the machine cannot switch its power off",
        "sleep mode=retain",
        "wake mode=retain source=alarm slept_ms=89 ",
    ];
    assert_said(&said, &wanted);
    assert!(!has_image(&mut disk));
}

#[test]
fn a_machine_that_can_only_retain_looks_at_no_disk() {
    let mut disk = configured(of_mode(Some(SleepMode::Persist)));
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.only_retains = true;
        machine.wakes_at = Some((Source::Timer, 3 * MS));
    });
    assert!(matches!(slept, Slept::Awake));
    assert_said(
        &said,
        &["sleep mode=retain", "wake mode=retain source=timer"],
    );
    assert!(!has_image(&mut disk));
}

#[test]
fn staged_is_saved_after_its_delay_or_when_the_battery_is_low() {
    for (battery_low_at, cause, slept_ms) in
        [(None, "delay", 5_000), (Some(901 * MS), "battery", 900)]
    {
        let mut disk = configured(STAGED);
        let (slept, said) = put_to_sleep(&mut disk, |machine| {
            machine.battery_low_at = battery_low_at;
        });
        assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
        let wanted = [
            "sleep mode=staged stage_after_ms=5000",
            &format!("staged cause={cause} slept_ms={slept_ms}"),
            "free pages are saved too",
            "sleep mode=persist",
        ];
        assert_said(&said, &wanted);
        assert!(has_image(&mut disk));
    }
}

#[test]
fn staged_wakes_from_ram_before_its_delay() {
    let mut disk = configured(STAGED);
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.wakes_at = Some((Source::Timer, 4_999 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let wanted = ["sleep mode=staged", "wake mode=retain source=timer"];
    assert_said(&said, &wanted);
    assert!(!has_image(&mut disk));
}

/// What falls due while the machine is being saved is not lost: it wakes from RAM,
/// and its image is not committed.
#[test]
fn staged_is_abandoned_for_what_comes_while_it_is_saved() {
    let mut disk = configured(STAGED);
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.step_ticks = 10 * MS;
        machine.wakes_at = Some((Source::Timer, 5_005 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let wanted = [
        "sleep mode=staged",
        "staged cause=delay",
        "free pages are saved too",
        "sleep abandoned source=timer",
        "wake mode=retain source=timer",
    ];
    assert_said(&said, &wanted);
    assert!(!has_image(&mut disk));
}

/// One that was told to be saved at once is not: it has always been so, and the OS
/// finds what has come when it wakes.
#[test]
fn persist_is_not_abandoned() {
    let mut disk = disk();
    let (slept, _) = put_to_sleep(&mut disk, |machine| {
        machine.wakes_at = Some((Source::Timer, 0));
    });
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
}

#[test]
fn persist_that_fails_is_refused_and_staged_rests_on() {
    let broken = Fault {
        command: Some(Command::Write),
        ..Fault::from(0, Effect::Fail)
    };
    let mut disk = disk();
    disk.inject(broken);
    let (slept, _) = put_to_sleep(&mut disk, |_| ());
    assert!(
        matches!(slept, Slept::Refused(NoSleep::Save(_))),
        "{slept:?}"
    );

    let mut disk = configured(STAGED);
    disk.inject(broken);
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.wakes_at = Some((Source::Console, 9_000 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let wanted = [
        "sleep mode=staged",
        "staged cause=delay",
        "free pages are saved too",
        "the machine cannot be saved and keeps retaining: ",
        "sleep mode=retain",
        "wake mode=retain source=console",
    ];
    assert_said(&said, &wanted);
}

#[test]
fn without_an_area_the_machine_rests() {
    let mut disk = disk();
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.has_area = false;
        machine.wakes_at = Some((Source::Console, 9_000 * MS));
    });
    assert!(matches!(slept, Slept::Awake), "{slept:?}");
    let wanted = [
        "the machine cannot be saved: no sleep area",
        "sleep mode=retain",
        "wake mode=retain",
    ];
    assert_said(&said, &wanted);
}

/// Wakes the machine that `prepare` makes; what that came to, and what it said.
fn power_on(
    disk: &mut FakeMedium,
    prepare: impl FnOnce(&mut FakeMachine<'_>),
) -> (Woke<u64>, Vec<String>) {
    let mut memory = memory();
    let mut work = FakeWork::new(memory.os().pages());
    let mut machine = FakeMachine::new(disk, START, 7 * MIB, None);
    prepare(&mut machine);
    let woke = machine.wake(memory.os(), &mut work.lend());
    (woke, machine.said.take())
}

const SNAPSHOT: Configuration = Configuration {
    next_snapshot: Some(Name::NONE),
    snapshots: SnapshotRules {
        key_ms: 2_000,
        ..STAGED.snapshots
    },
    ..STAGED
};

#[test]
fn a_snapshot_is_made_once_and_wakes_with_its_state_unless_a_key_is_pressed() {
    let mut disk = configured(SNAPSHOT);
    let (slept, said) = put_to_sleep(&mut disk, |machine| machine.domains[0].state = 77);
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    assert_said(&said[1..], &["sleep mode=snapshot"]);
    let mut scratch = Page::ZERO;
    let configuration = area(&mut disk, &mut scratch).unwrap().configuration();
    assert_eq!(configuration.unwrap().next_snapshot, None);

    for _ in 0..2 {
        let (woke, said) = power_on(&mut disk, |_| ());
        assert!(matches!(woke, Woke::Awake(Outcome::Wakes(77))), "{woke:?}");
        assert!(said[0].contains("press a key within 2000 ms"), "{said:?}");
        assert!(said[1].ends_with(" mode=snapshot"), "{said:?}");
    }
    let (woke, _) = power_on(&mut disk, |machine| machine.has_key = true);
    assert!(
        matches!(woke, Woke::Cold(start) if start.reason() == ColdBoot::Key),
        "{woke:?}"
    );
}

#[test]
fn a_reset_within_the_trial_is_counted() {
    let mut disk = configured(SNAPSHOT);
    put_to_sleep(&mut disk, |_| ());
    let attempt = {
        let mut memory = memory();
        let mut work = FakeWork::new(memory.os().pages());
        let machine = FakeMachine::new(&mut disk, START, 7 * MIB, None);
        let woke = machine.wake(memory.os(), &mut work.lend());
        assert!(matches!(woke, Woke::Awake(_)));
        machine.attempt.get()
    };
    let attempt = attempt.expect("word is left that a snapshot wakes");
    assert_eq!((attempt.generation, attempt.trial_ms), (1, 60_000));
    for (later_ms, is_noted) in [(60_001, false), (900, true)] {
        power_on(&mut disk, |machine| {
            machine.attempt.set(Some(attempt));
            machine.now.set(attempt.woken_at_ns + later_ms * MS);
        });
        let mut scratch = Page::ZERO;
        let area = area(&mut disk, &mut scratch).unwrap();
        let (.., attempts) = area.snapshot().unwrap();
        assert_eq!(attempts.failure.is_some(), is_noted, "{later_ms}");
    }
}

#[test]
fn an_obstacle_refuses_a_save_by_name_and_commits_nothing() {
    let mut disk = disk();
    let obstacle = Obstacle::Iommu(0x301_0000);
    let (slept, _) = put_to_sleep(&mut disk, |machine| machine.obstacle.set(Some(obstacle)));
    assert!(
        matches!(slept, Slept::Refused(NoSleep::Obstacle(found)) if found == obstacle),
        "{slept:?}"
    );
    let (woke, _) = power_on(&mut disk, |_| ());
    assert!(matches!(woke, Woke::Cold(_)), "{woke:?}");
}

/// A function on bus 0 of a host bridge.
fn in_use(host: usize, device: u8) -> FunctionInUse {
    let function = Function {
        bus: 0,
        device,
        function: 0,
    };
    let found = InUse {
        function,
        id: 0x1009_1af4,
    };
    FunctionInUse { host, found }
}

#[test]
fn functions_that_are_left_in_use_are_named_before_a_save_alone() {
    let told = |mode, functions: &[FunctionInUse]| {
        let mut disk = configured(of_mode(mode));
        let (_, said) = put_to_sleep(&mut disk, |machine| {
            let mut left = machine.left_in_use.borrow_mut();
            functions.iter().for_each(|function| left.add(*function));
            // After the stage delay.
            machine.wakes_at = Some((Source::Console, 60_000 * MS));
        });
        let warnings = said.into_iter().filter(|line| line.contains("warning"));
        warnings.collect::<Vec<_>>()
    };
    let first = "warning: PCI 00:03.0 (1af4:1009) is still in use and will lose its state: \
                 unload its driver before a sleep";
    let two = [in_use(0, 3), in_use(1, 4)];
    let said = told(None, &two);
    assert_eq!(said[0], first);
    assert!(
        said[1].starts_with("warning: PCI 0001:00:04.0 (1af4:1009) is"),
        "{said:?}"
    );
    assert_eq!(said.len(), 2);
    assert_eq!(told(None, &[]), [""; 0]);
    assert_eq!(
        told(Some(SleepMode::Retain), &two),
        [""; 0],
        "nothing is lost"
    );
    assert_eq!(told(Some(SleepMode::Staged), &two).len(), 2);
    let many: Vec<_> = (0..11).map(|device| in_use(0, device)).collect();
    let said = told(None, &many);
    assert_eq!(said.len(), 9);
    assert_eq!(
        said[8],
        "warning: 3 more PCI functions are still in use and will lose their state"
    );
}

#[test]
fn memory_that_was_added_refuses_a_save_and_no_other_doubt_does() {
    let sleeps = |free_list| {
        let mut disk = disk();
        put_to_sleep(&mut disk, |machine| {
            machine.domains[0].free_list = free_list
        })
        .0
    };
    let slept = sleeps(FreeListError::Added(0x1_8000_0000));
    let added = Obstacle::AddedMemory(0x1_8000_0000);
    assert!(
        matches!(slept, Slept::Refused(NoSleep::Obstacle(found)) if found == added),
        "{slept:?}"
    );
    let slept = sleeps(FreeListError::NoNote);
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
}

#[test]
fn a_cold_boot_without_an_image_says_so() {
    let (woke, said) = power_on(&mut disk(), |_| ());
    let none = ColdBoot::NoWake(NoWake::NoImage(NoImage::None));
    assert!(matches!(woke, Woke::Cold(start) if start.reason() == none));
    assert_eq!(none.to_string(), "no image");
    assert!(said.is_empty(), "the caller says why: {said:?}");
}

/// Bytes of the area of a disk that has another partition behind it.
const SHORT_AREA: u64 = 6 * MIB;

/// A disk with a partition that holds LUKS behind its area.
fn disk_beside_luks(configuration: &Configuration) -> FakeMedium {
    let mut disk = disk();
    let mut scratch = Page::ZERO;
    let window = Window::new(&mut disk, START, SHORT_AREA).unwrap();
    let mut area = Area::open(window, &mut scratch, None, RecordFormat::Image).unwrap();
    area.configure(configuration).unwrap();
    let mut header = Page::ZERO;
    header.0[0] = u64::from_le_bytes(*b"LUKS\xba\xbe\0\x02");
    let mut other = Window::new(&mut disk, START + SHORT_AREA, PAGE_BYTES).unwrap();
    other.write(0, &[header]).unwrap();
    disk
}

/// Has the machine of such a disk sleep.
fn sleep_beside_luks(disk: &mut FakeMedium) -> (Slept, Vec<String>) {
    sleep_beside(disk, |machine| machine.other_bytes = MIB)
}

/// Has the machine that `prepare` makes sleep in an area with room behind it.
fn sleep_beside(
    disk: &mut FakeMedium,
    prepare: impl FnOnce(&mut FakeMachine<'_>),
) -> (Slept, Vec<String>) {
    let mut memory = memory();
    let mut work = FakeWork::new(memory.os().pages());
    let mut machine = FakeMachine::new(disk, START, SHORT_AREA, None);
    prepare(&mut machine);
    let vector = EntryPoint {
        address: 0,
        argument: 0,
    };
    let slept = machine.sleep(memory.os(), vector, &mut work.lend());
    (slept, machine.said.take())
}

const UNGUARDED: &str =
    "partition 2 cannot be guarded: it holds LUKS, which can change beyond its first 128 KiB";

#[test]
fn a_snapshot_beside_what_cannot_be_guarded_is_refused_by_name() {
    let mut disk = disk_beside_luks(&SNAPSHOT);
    let (slept, said) = sleep_beside_luks(&mut disk);
    let Slept::Refused(error @ NoSleep::Unguarded(_)) = slept else {
        panic!("{slept:?}");
    };
    assert!(error.to_string().starts_with(UNGUARDED), "{error}");
    assert_said(&said, &[]);
    // The next sleep is an ordinary one.
    let (_, said) = sleep_beside_luks(&mut disk);
    assert_said(&said[..1], &["sleep mode=staged"]);
    assert!(
        said.iter()
            .any(|line| line.starts_with("sleep mode=persist")),
        "{said:?}"
    );
}

#[test]
fn a_snapshot_beside_what_is_known_to_be_unguarded_says_so_at_each_wake() {
    let mut disk = disk_beside_luks(&Configuration {
        accepts_unguarded: true,
        snapshots: STAGED.snapshots,
        ..SNAPSHOT
    });
    let (slept, said) = sleep_beside_luks(&mut disk);
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    assert_said(
        &said,
        &[UNGUARDED, "free pages are saved too", "sleep mode=snapshot"],
    );
    for _ in 0..2 {
        let (woke, said) = wake_beside_luks(&mut disk);
        assert!(matches!(woke, Woke::Awake(_)), "{woke:?}");
        assert_said(&said[..1], &[UNGUARDED]);
    }
}

/// A power-on of the machine of such a disk.
fn wake_beside_luks(disk: &mut FakeMedium) -> (Woke<u64>, Vec<String>) {
    wake_beside(disk, |machine| machine.other_bytes = MIB)
}

/// A power-on of the machine that `prepare` makes, with room behind its area.
fn wake_beside(
    disk: &mut FakeMedium,
    prepare: impl FnOnce(&mut FakeMachine<'_>),
) -> (Woke<u64>, Vec<String>) {
    let mut memory = memory();
    let mut work = FakeWork::new(memory.os().pages());
    let mut machine = FakeMachine::new(disk, START, SHORT_AREA, None);
    prepare(&mut machine);
    let woke = machine.wake(memory.os(), &mut work.lend());
    (woke, machine.said.take())
}

/// The machine of such a disk, whose controller lists these namespaces. The last one is the disk.
fn listing(namespaces: &[u32]) -> impl FnOnce(&mut FakeMachine<'_>) {
    let ids = namespaces.iter().map(|number| MediumId::Namespace(*number));
    let media = ids.collect();
    |machine| {
        machine.other_bytes = MIB;
        machine.media = media;
    }
}

#[test]
fn a_disk_is_known_by_its_number_and_not_by_its_place_in_a_list() {
    let sleep_then_wake = |then: &[u32], now: &[u32]| {
        let mut disk = disk_beside_luks(&of_mode(Some(SleepMode::Persist)));
        let (slept, _) = sleep_beside(&mut disk, listing(then));
        assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
        wake_beside(&mut disk, listing(now)).0
    };
    // Namespaces in front that came or went.
    for (then, now) in [([1, 2].as_slice(), [2].as_slice()), (&[2], &[1, 2])] {
        let woke = sleep_then_wake(then, now);
        assert!(matches!(woke, Woke::Awake(_)), "{then:?} {now:?}: {woke:?}");
    }
    // Another disk at the same place.
    let Woke::Cold(start) = sleep_then_wake(&[2], &[3]) else {
        panic!("another disk counts as the same");
    };
    let gone = "partition 2 is not there any more: the image does not fit it any more";
    assert_eq!(start.reason().to_string(), gone);
}

#[test]
fn a_snapshot_whose_disk_is_gone_is_refused_and_kept() {
    let snapshot = Configuration {
        accepts_unguarded: true,
        snapshots: STAGED.snapshots,
        ..SNAPSHOT
    };
    let mut disk = disk_beside_luks(&snapshot);
    let (slept, _) = sleep_beside(&mut disk, listing(&[1, 2]));
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    for _ in 0..2 {
        let (woke, _) = wake_beside(&mut disk, listing(&[1]));
        assert!(matches!(woke, Woke::Cold(_)), "{woke:?}");
    }
    let (woke, _) = wake_beside(&mut disk, listing(&[2]));
    assert!(matches!(woke, Woke::Awake(_)), "{woke:?}");
}

/// The fingerprint of the partition that holds LUKS, as versions 2 and 3 of the section have it.
fn luks_fingerprint() -> [u8; 80] {
    let mut disk = disk_beside_luks(&of_mode(Some(SleepMode::Persist)));
    sleep_beside_luks(&mut disk);
    let bytes = disk.bytes();
    let head = bytes.windows(6).position(|word| word == b"GRDS\x03\0");
    let fingerprint = bytes[head.unwrap() + 16..].first_chunk();
    *fingerprint.unwrap()
}

#[test]
fn an_image_that_does_not_accept_what_cannot_be_guarded_is_refused_or_names_it() {
    let fingerprint = luks_fingerprint();
    let snapshot = Configuration {
        snapshots: STAGED.snapshots,
        ..SNAPSHOT
    };
    // The versions of the section: the oldest one does not say what the partition holds.
    for (version, payload) in [
        (1, &fingerprint[..72]),
        (2, &fingerprint[..]),
        (3, &fingerprint[..]),
    ] {
        for configuration in [snapshot, of_mode(Some(SleepMode::Persist))] {
            let mut disk = disk_beside_luks(&configuration);
            let (slept, _) = sleep_beside(&mut disk, |machine| {
                let owner = u32::from_le_bytes(*b"GRDS");
                machine.domains[0].section = Some((owner, version, payload.to_vec()));
            });
            assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
            let (woke, said) = wake_beside_luks(&mut disk);
            if configuration != snapshot {
                assert!(
                    matches!(woke, Woke::Awake(_)),
                    "version {version}: {woke:?}"
                );
                assert_said(&said[..1], &[UNGUARDED]);
                continue;
            }
            let Woke::Cold(start) = woke else {
                panic!("version {version}: {woke:?}");
            };
            let told = start.reason().to_string();
            assert!(told.starts_with(UNGUARDED), "{told}");
            // It is kept, as each that is refused.
            let (woke, _) = wake_beside_luks(&mut disk);
            assert!(matches!(woke, Woke::Cold(again) if again == start));
        }
    }
}

#[test]
fn an_image_of_before_names_a_disk_by_its_position() {
    let fingerprint = luks_fingerprint();
    let disk_at = fingerprint.len() - 24;
    for (version, bytes) in [(1, 72), (2, 80)] {
        let mut payload = fingerprint[..bytes].to_vec();
        payload[disk_at] = 1;
        for (now, wakes) in [
            ([1, 2].as_slice(), true),
            (&[1, 2, 3], false),
            (&[2], false),
        ] {
            let mut disk = disk_beside_luks(&of_mode(Some(SleepMode::Persist)));
            let (slept, _) = sleep_beside(&mut disk, |machine| {
                let owner = u32::from_le_bytes(*b"GRDS");
                machine.domains[0].section = Some((owner, version, payload.clone()));
            });
            assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
            let (woke, _) = wake_beside(&mut disk, listing(now));
            let woken = matches!(woke, Woke::Awake(_));
            assert_eq!(woken, wakes, "version {version}, {now:?}: {woke:?}");
            if let Woke::Cold(start) = woke {
                let told = start.reason().to_string();
                assert!(told.contains("is not there any more"), "{told}");
            }
        }
    }
}

#[test]
fn an_ordinary_sleep_names_what_cannot_be_guarded() {
    let mut disk = disk_beside_luks(&of_mode(Some(SleepMode::Persist)));
    let (slept, said) = sleep_beside_luks(&mut disk);
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    assert_said(
        &said,
        &[UNGUARDED, "free pages are saved too", "sleep mode=persist"],
    );
}

/// What a controller says of a namespace that it shares.
fn shared(controller: u16) -> SharedNamespace {
    SharedNamespace {
        subsystem: [b'n'; 256],
        controller,
        id: 1,
        identifiers: Identifiers {
            uuid: [9; 16],
            ..Identifiers::default()
        },
    }
}

#[test]
fn an_area_that_two_controllers_share_is_one_and_is_used_through_the_first() {
    let mut disk = disk();
    let mut wrote = None;
    let (slept, said) = put_to_sleep(&mut disk, |machine| {
        machine.controllers = vec![Some(shared(0)), Some(shared(1)), Some(shared(2))];
        wrote = Some(Rc::clone(&machine.wrote));
    });
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    assert_said(&said, &["free pages are saved too", "sleep mode=persist"]);
    assert!(has_image(&mut disk));
    assert_eq!(wrote.unwrap().take(), BTreeSet::from([0]));
}

/// An area that overlaps another partition is refused by that name, also if the machine has
/// other controllers, and neither a sleep nor a power-on writes to it.
#[test]
fn an_area_with_another_claim_to_its_blocks_is_refused_and_not_written() {
    let table = AreaError::Table(GptError::Overlap { area: 1, other: 2 });
    let text = "partition 1, a sleep area, overlaps partition 2";
    for controllers in [vec![None], vec![Some(shared(0)), None]] {
        let mut disk = disk();
        let (slept, _) = put_to_sleep(&mut disk, |_| ());
        assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
        let before = disk.bytes().to_vec();
        // With one controller, the refusal itself is the report.
        let lines = if controllers.len() == 1 {
            0
        } else {
            controllers.len()
        };
        let (slept, said) = put_to_sleep(&mut disk, |machine| {
            machine.is_overlapped = true;
            machine.controllers.clone_from(&controllers);
        });
        let refused = matches!(slept, Slept::Refused(error) if error == NoSleep::Area(table));
        assert!(refused, "{slept:?}");
        let count = said.iter().filter(|said| said.contains(text)).count();
        assert_eq!(count, lines, "{said:?}");

        let mut memory = memory();
        let mut work = FakeWork::new(memory.os().pages());
        let mut machine = FakeMachine::new(&mut disk, START, 7 * MIB, None);
        machine.is_overlapped = true;
        machine.controllers = controllers;
        let woke = machine.wake(memory.os(), &mut work.lend());
        let refused = matches!(woke, Woke::Cold(start) if start.reason() == ColdBoot::Area(table));
        assert!(refused, "{woke:?}");
        assert!(machine.wrote.borrow().is_empty());
        drop(machine);
        assert!(disk.bytes() == before, "the disk was written");
    }
}

/// Otherwise the image would wake after the other namespace is corrected, and the disk changed.
#[test]
fn a_refused_namespace_does_not_keep_the_images_of_another() {
    let mut disk = disk();
    let (slept, _) = put_to_sleep(&mut disk, |_| ());
    assert!(matches!(slept, Slept::Asleep(_)), "{slept:?}");
    let mut memory = memory();
    let mut work = FakeWork::new(memory.os().pages());
    let mut machine = FakeMachine::new(&mut disk, START, 7 * MIB, None);
    machine.has_refused_namespace = true;
    let woke = machine.wake(memory.os(), &mut work.lend());
    let table = AreaError::Table(GptError::Overlap { area: 1, other: 2 });
    let refused = matches!(woke, Woke::Cold(start) if start.reason() == ColdBoot::Area(table));
    assert!(refused, "{woke:?}");
    drop(machine);
    assert!(!has_image(&mut disk));
}

#[test]
fn areas_that_merely_look_alike_are_two() {
    let other = SharedNamespace {
        subsystem: [b'o'; 256],
        ..shared(1)
    };
    for second in [None, Some(other), Some(shared(0))] {
        let mut disk = disk();
        let (slept, said) = put_to_sleep(&mut disk, |machine| {
            machine.controllers = vec![Some(shared(0)), second];
        });
        let two = NoSleep::Area(AreaError::TooManyAreas(2));
        assert!(
            matches!(slept, Slept::Refused(error) if error == two),
            "{slept:?}"
        );
        assert_said(&said, &[]);
        assert!(!has_image(&mut disk));
    }
}
