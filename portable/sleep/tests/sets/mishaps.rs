//! Commands that fail and power that goes, at every command of a set's sleep and of its wake: a
//! domain wakes whole or not at all, and never twice.

use std::cell::Cell;
use std::rc::Rc;

use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault};
use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::{OsPage, Page};
use poorwill_sleep::{ColdBoot, NoWake, Outcome, Slept};
use poorwill_store::Failure;

use crate::machine::{Boot, Boots, Machine, commands, disk_of, has_set, is_asleep};

/// Domains of the machine.
const DOMAINS: usize = 2;

/// A disk that was in use: each slot holds an older set, which has woken.
fn used_disk(machine: &mut Machine, seed: u64) -> FakeMedium {
    let mut disk = disk_of(3).with_seed(seed);
    for old in [1000, 1001] {
        machine.run(old);
        assert!(is_asleep(&machine.sleep(&mut disk, old)));
        assert_eq!(machine.boot(&mut disk).woke, Boots::Awake);
    }
    disk
}

/// A disk with a set of this seed.
fn asleep(machine: &mut Machine, seed: u64, set: u64) -> FakeMedium {
    let mut disk = used_disk(machine, seed);
    machine.run(set);
    assert!(is_asleep(&machine.sleep(&mut disk, set)));
    disk.restart();
    disk
}

/// A power-on of a machine that slept with the seed `set`: each domain has its memory of then, or
/// nothing is in its memory that it may not have. Returns whether a domain woke.
fn boot_and_check(machine: &mut Machine, disk: &mut FakeMedium, set: u64) -> (Boot, bool) {
    let before = set + 1;
    machine.run(before);
    let boot = machine.boot(disk);
    let mut any = false;
    for domain in 0..machine.domains() {
        match boot.end(domain) {
            Some(Outcome::Wakes(state)) => {
                any = true;
                assert_eq!(state >> 8, set, "{boot:?}");
                assert!(machine.holds(domain, set), "{boot:?}");
            }
            Some(Outcome::Ended(_)) => {}
            None if boot.woke != Boots::Awake && boot.cold().is_none() && domain == 0 => {}
            Some(Outcome::Cold(_)) | None => assert!(machine.holds(domain, before), "{boot:?}"),
        }
    }
    (boot, any)
}

/// Whether all domains wake.
fn all_wake(boot: &Boot) -> bool {
    boot.woke == Boots::Awake && (0..DOMAINS).all(|domain| boot.wakes(domain))
}

#[test]
fn a_set_whose_save_fails_is_none() {
    let mut machine = Machine::new(DOMAINS);
    let mut in_doubt = 0;
    let mut used = used_disk(&mut machine, 1);
    machine.run(1);
    let count = commands(&mut used, |disk| {
        machine.sleep(disk, 1);
    });
    for n in 0..count {
        for effect in [Effect::Fail, Effect::FailAfterwards, Effect::Stall] {
            for fault in [Fault::nth(n, effect), Fault::from(n, effect)] {
                let mut disk = used_disk(&mut machine, 1);
                disk.restart();
                machine.run(n);
                disk.inject(fault);
                let slept = machine.sleep(&mut disk, n);
                assert!(machine.all_hold(n), "the OSes go on with their memory");
                disk.restart();
                let has_set = has_set(&mut disk);
                match slept {
                    // It was the read of the configuration: by default, the machine is saved.
                    Slept::Asleep(_) => assert!(has_set && n == 2, "{n} {fault:?}"),
                    Slept::InDoubt(_) => in_doubt += 1,
                    Slept::Refused(_) => assert!(!has_set, "{n} {fault:?}"),
                    other => panic!("{n} {fault:?}: {other:?}"),
                }
                let (boot, _) = boot_and_check(&mut machine, &mut disk, n);
                assert_eq!(all_wake(&boot), has_set, "{n} {fault:?}: {boot:?}");
                assert!(has_set || boot.cold().is_some());
            }
        }
    }
    assert!(in_doubt > 0);
}

#[test]
fn a_power_cut_during_a_sleep_leaves_the_whole_set_or_none() {
    let mut machine = Machine::new(DOMAINS);
    let (mut whole, mut none) = (0, 0);
    for n in 0.. {
        let mut is_over = false;
        for seed in 0..6 {
            let mut disk = used_disk(&mut machine, seed);
            disk.restart();
            machine.run(n);
            disk.inject(Fault::nth(n, Effect::PowerCut));
            let committed = is_asleep(&machine.sleep(&mut disk, n));
            is_over = (disk.log().len() as u64) <= n;
            disk.restart();
            let (boot, any) = boot_and_check(&mut machine, &mut disk, n);
            assert_eq!(all_wake(&boot), any, "{n}, seed {seed}: {boot:?}");
            assert!(any || !committed, "{n}, seed {seed}: {boot:?}");
            assert!(any || boot.cold().is_some(), "{n}, seed {seed}: {boot:?}");
            whole += u32::from(any);
            none += u32::from(!any);
            let (again, any) = boot_and_check(&mut machine, &mut disk, n);
            assert!(!any && again.cold().is_some(), "never twice");
        }
        if is_over {
            break;
        }
    }
    assert!(whole > 6 && none > 6, "{whole} whole, {none} none");
}

/// The mark of consumption is durable before any memory changes.
#[test]
fn a_power_cut_during_a_wake_never_wakes_a_part_twice() {
    let mut machine = Machine::new(DOMAINS);
    let mut disk = asleep(&mut machine, 0, 1);
    let count = commands(&mut disk, |disk| {
        machine.boot(disk);
    });
    let (mut again, mut gone) = (0, 0);
    for n in 0..count {
        for seed in 0..6 {
            let mut disk = asleep(&mut machine, seed, 1);
            disk.inject(Fault::nth(n, Effect::PowerCut));
            boot_and_check(&mut machine, &mut disk, 1);
            let loading = !machine.all_hold(2);
            disk.restart();
            let (second, any) = boot_and_check(&mut machine, &mut disk, 1);
            assert_eq!(all_wake(&second), any, "{n}, seed {seed}: {second:?}");
            assert!(!(any && loading), "{n}, seed {seed}: {second:?}");
            assert!(any || second.cold().is_some());
            again += u32::from(any);
            gone += u32::from(!any);
            let (_, any) = boot_and_check(&mut machine, &mut disk, 1);
            assert!(!any, "never twice");
        }
    }
    assert!(again > 6 && gone > 6, "{again} again, {gone} gone");
}

#[test]
fn a_failing_or_lying_command_of_a_wake_lets_no_part_wake_twice() {
    let mut machine = Machine::new(DOMAINS);
    let mut disk = asleep(&mut machine, 0, 1);
    let log = {
        machine.boot(&mut disk);
        disk.log().to_vec()
    };
    let mut partial = 0;
    for (n, kind) in (0..).zip(log) {
        for effect in [
            Effect::Fail,
            Effect::FailAfterwards,
            Effect::Stall,
            Effect::Lie,
            Effect::Misread,
        ] {
            let mut disk = asleep(&mut machine, 0, 1);
            disk.inject(Fault::nth(n, effect));
            let (boot, any) = boot_and_check(&mut machine, &mut disk, 1);
            partial += u32::from(any && !all_wake(&boot));
            disk.restart();
            let (second, woke) = boot_and_check(&mut machine, &mut disk, 1);
            // If no record could be read, nothing was discarded, and nothing loaded. A flush that
            // is acknowledged and not done is not noticed.
            let is_unread = n < 2 && !any;
            let is_unkept = effect == Effect::Lie && kind == Command::Flush;
            assert!(
                !woke || is_unread || is_unkept,
                "{n} {effect:?}: {second:?}"
            );
            assert!(!woke || all_wake(&second));
        }
    }
    assert!(partial > 0);
}

/// A write or a flush of a sleep that is acknowledged and not done may cost a part, and wakes no
/// other memory.
#[test]
fn a_medium_that_loses_writes_wakes_no_wrong_memory() {
    let mut machine = Machine::new(DOMAINS);
    let mut used = used_disk(&mut machine, 1);
    machine.run(1);
    let count = commands(&mut used, |disk| {
        machine.sleep(disk, 1);
    });
    let mut lost = 0;
    for n in 0..count {
        for fault in [Fault::nth(n, Effect::Lie), Fault::from(n, Effect::Lie)] {
            let mut disk = used_disk(&mut machine, 1);
            disk.restart();
            machine.run(n);
            disk.inject(fault);
            machine.sleep(&mut disk, n);
            disk.restart();
            let (boot, _) = boot_and_check(&mut machine, &mut disk, n);
            lost += u32::from(!all_wake(&boot));
        }
    }
    assert!(lost > 0);
}

/// A disk whose controller stays stopped after an error, until it is started again.
struct Halting {
    medium: FakeMedium,
    /// How often the controller was started.
    starts: Rc<Cell<usize>>,
    /// The start at which it was stopped.
    stopped_at: Option<usize>,
}

impl Halting {
    fn run<R>(
        &mut self,
        command: impl FnOnce(&mut FakeMedium) -> Result<R, MediumError>,
    ) -> Result<R, MediumError> {
        if self.stopped_at == Some(self.starts.get()) {
            return Err(MediumError::Stopped);
        }
        let result = command(&mut self.medium);
        if result.is_err() {
            self.stopped_at = Some(self.starts.get());
        }
        result
    }
}

impl Medium for Halting {
    fn capacity(&self) -> u64 {
        self.medium.capacity()
    }

    fn max_pages(&self) -> usize {
        self.medium.max_pages()
    }

    fn depth(&self) -> usize {
        self.medium.depth()
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        self.run(|medium| medium.read(offset, into))
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        self.run(|medium| medium.write(offset, from))
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        self.run(Medium::flush)
    }

    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        self.run(|medium| medium.start_flush(tag))
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        self.run(|medium| medium.start(direction, offset, pages, tag))
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        self.run(Medium::poll)
    }

    fn quiesce(&mut self) {
        self.medium.quiesce();
    }
}

/// The same medium, with these contents durable.
fn copy_of(medium: &FakeMedium) -> FakeMedium {
    let mut copy = disk_of(5);
    copy.edit(|bytes| bytes.copy_from_slice(medium.bytes()));
    copy
}

/// A controller that stops during the load of a part: the failure is recorded all the same.
#[test]
fn a_controller_that_stops_during_a_load_costs_no_record() {
    let mut machine = Machine::new(3);
    let mut medium = disk_of(5);
    machine.run(1);
    assert!(is_asleep(&machine.sleep(&mut medium, 1)));
    let mut probe = copy_of(&medium);
    let count = commands(&mut probe, |disk| {
        machine.boot(disk);
    });
    let mut named = 0;
    for n in 0..count {
        let mut disk = copy_of(&medium);
        disk.inject(Fault::nth(n, Effect::Stall));
        let starts = Rc::new(Cell::new(0));
        let mut halting = Halting {
            medium: disk,
            starts: Rc::clone(&starts),
            stopped_at: None,
        };
        machine.run(2);
        let boot = machine.boot_with(&mut halting, None, &|fake| fake.starts = Rc::clone(&starts));
        let Some(Outcome::Ended(failure)) = boot.end(1) else {
            continue;
        };
        assert_eq!(failure, Failure::TimedOut(0));
        assert!(boot.wakes(0));
        // Its image could not even be read.
        assert!(matches!(boot.end(2), Some(Outcome::Cold(_))) && machine.holds(2, 2));
        let mut disk = halting.medium;
        disk.restart();
        let boot = machine.boot(&mut disk);
        let Boots::Cold(start) = boot.woke else {
            panic!("{boot:?}");
        };
        assert_eq!(
            start.of(1),
            ColdBoot::NoWake(NoWake::LastWakeFailed(failure))
        );
        named += 1;
    }
    assert!(named > 0);
}
