//! A cut whose every step may be the last one: lines of cache that were not written back
//! have reached memory then, or not, or in part; a word of flash is written, or not.

mod caches;
mod flash;
mod given_up;
mod machine;
mod memory_error;
mod request;
mod traffic;
mod vault;
mod wear;

use flash::Flash;
use machine::{At, HARTS, Kept, Machine, Memory, Mutant, Os, Words, layout};
use poorwill_sleep::cut::{
    CutReason, Found, Guard, NoGo, Place, Prover, StopMachine, end, find, go, request,
    single_lines, stop,
};
use proptest::prelude::*;

/// Of the lines of cache, those that reach memory.
const KEEPS: [u64; 5] = [
    0,
    u64::MAX,
    0x5555_5555_5555_5555,
    0x1b1b_1b1b_1b1b_1b1b,
    0x2a2a_2a2a_2a2a_2a2b,
];

/// A machine that has started for the first time, and the same without a vault.
fn started() -> [Kept; 2] {
    [Flash::Absent, Flash::NEW].map(|flash| {
        let machine = Machine::new(Kept {
            memory: Memory::new(),
            flash,
            is_levelled: false,
        });
        assert_eq!(go(&machine).err(), Some(NoGo::Cold(None)));
        machine.power_off(u64::MAX)
    })
}

/// Runs and stops a machine, with the power gone after so many steps.
fn run_and_stop(kept: &Kept, seed: u64, fuel: Option<(usize, u64)>, keep: u64) -> Cut {
    run_and_stop_mutant(kept, seed, fuel, keep, None)
}

fn run_and_stop_mutant(
    kept: &Kept,
    seed: u64,
    fuel: Option<(usize, u64)>,
    keep: u64,
    mutant: Option<Mutant>,
) -> Cut {
    let machine = Machine::new(kept.clone());
    machine.mutant.set(mutant);
    machine.proof.replace(kept.flash.proof());
    machine.run(seed);
    machine.steps.set(0);
    machine.fuel.set(fuel);
    let is_committed = stop(&machine).is_ok() && machine.is_on();
    let os = machine.os();
    Cut {
        steps: machine.steps.get(),
        is_committed,
        os,
        kept: machine.power_off(keep),
    }
}

struct Cut {
    steps: usize,
    is_committed: bool,
    os: Os,
    kept: Kept,
}

/// How a start has ended.
#[derive(Debug)]
enum Start {
    /// The harts were released, with this.
    Went(Box<Os>),
    /// It boots without a cut.
    Cold(Option<CutReason>),
    /// The power went.
    Lost,
    /// It is to be reset.
    Reset,
}

/// Powers a machine on; the power goes after so many steps.
fn start(kept: Kept, fuel: Option<(usize, u64)>) -> (Start, Kept) {
    let machine = Machine::new(kept);
    machine.fuel.set(fuel);
    let result = go(&machine);
    let number = machine.flash.get().cut();
    let start = match result {
        _ if !machine.is_on() => Start::Lost,
        Ok(_) => Start::Went(Box::new(machine.os())),
        Err(NoGo::Cold(reason)) => Start::Cold(reason),
        Err(NoGo::Reset(_)) => Start::Reset,
    };
    if let (Start::Went(_) | Start::Cold(_), Some(proof)) = (&start, &*machine.proof.borrow()) {
        let is_latest = match proof {
            poorwill_sleep::cut::Proof::Checksums => machine.flash.get() == Flash::Absent,
            poorwill_sleep::cut::Proof::Tags { number: of, .. } => *of == number,
        };
        assert!(is_latest, "the next cut is the one that the vault knows of");
    }
    (start, machine.power_off(0))
}

/// Powers on until a start is not interrupted; the power goes after each number of steps in
/// `fuel`. Returns what the OS finds, if it goes on.
fn power_on(mut kept: Kept, fuel: &[(usize, u64)]) -> (Option<Os>, Kept) {
    for fuel in fuel.iter().copied().map(Some).chain([None]) {
        let (started, left) = start(kept, fuel);
        // Harts run only where the power is still there.
        match started {
            Start::Went(os) => return (Some(*os), left),
            Start::Cold(_) => return (None, left),
            Start::Lost | Start::Reset => kept = left,
        }
    }
    unreachable!("the last start has all the power it needs")
}

/// Powers a machine on that was cut, and has it go on.
fn power_on_machine(kept: Kept) -> Machine {
    let machine = Machine::new(kept);
    go(&machine).unwrap();
    machine
}

fn found(kept: &Kept) -> Found {
    let machine = Machine::new(kept.clone());
    find(&machine, &machine.with_vault(Guard::at_start))
}

#[test]
fn a_cut_is_gone_on_with_once() {
    for kept in started() {
        let cut = run_and_stop(&kept, 11, None, 0);
        assert!(cut.is_committed);
        let Found::Cut(report) = found(&cut.kept) else {
            panic!("it is committed");
        };
        let bytes = (HARTS + 3) * size_of::<Words>();
        assert_eq!(
            (report.sequence, report.ticks, report.bytes),
            (1, 17, bytes as u64)
        );
        let (os, kept) = power_on(cut.kept, &[]);
        assert_eq!(os, Some(cut.os));
        assert_eq!(found(&kept), found_behind(true));
        let (started, kept) = start(kept, None);
        assert!(matches!(started, Start::Cold(Some(CutReason::NoOther(1)))));
        assert_eq!(found(&kept), Found::Nothing, "it is said once");
        assert!(matches!(start(kept, None).0, Start::Cold(None)));
    }
}

/// An OS without the record has used memory, such as a domain. The record itself is whole.
#[test]
fn a_cut_from_before_another_os_is_over() {
    for kept in started() {
        let cut = run_and_stop(&kept, 11, None, 0);
        let machine = Machine::new(cut.kept);
        machine.started_without.set(true);
        assert_eq!(go(&machine).err(), Some(NoGo::Cold(Some(CutReason::Old))));
        let (started, _) = start(machine.power_off(0), None);
        assert!(matches!(started, Start::Cold(None)), "it is said once");
    }
}

/// What a start finds where the first cut was gone on with last, and no other followed; and
/// where none was.
fn found_behind(went_on: bool) -> Found {
    match went_on {
        true => Found::Refused(CutReason::NoOther(1)),
        false => Found::Nothing,
    }
}

/// The OS shuts down, or sleeps, and any step of that may be the last.
#[test]
fn a_machine_that_ends_in_order_is_not_told_of() {
    for kept in started() {
        let cut = run_and_stop(&kept, 5, None, 0);
        let (_, running) = power_on(cut.kept, &[]);
        for at in [None, Some(1), Some(2)] {
            for keep in KEEPS {
                let machine = Machine::new(running.clone());
                machine.fuel.set(at.map(|at| (at, keep)));
                end(&machine);
                assert_eq!(machine.is_on(), at.is_none());
                let left = machine.power_off(0);
                let found = found(&left);
                // Before it is in memory it may be told of all the same.
                let is_late = at.is_some() && found == found_behind(true);
                assert!(is_late || found == found_behind(false), "{at:?} {keep:x}");
                let next = run_and_stop(&left, 6, None, 0);
                assert_eq!(power_on(next.kept, &[]).0, Some(next.os));
            }
        }
        // A machine that boots cold has nothing to end.
        let machine = Machine::new(kept);
        end(&machine);
        assert_eq!(machine.steps.get(), 0);
    }
}

/// The start that tells of it is cut short, and so is the next.
#[test]
fn a_cut_that_was_gone_on_with_stays_over_when_that_is_told() {
    for kept in started() {
        let cut = run_and_stop(&kept, 5, None, 0);
        let (_, running) = power_on(cut.kept, &[]);
        for at in 1..16 {
            for keep in KEEPS {
                let (_, left) = start(running.clone(), Some((at, keep)));
                assert!(!matches!(found(&left), Found::Cut(_)), "{at} {keep:x}");
                let (os, left) = power_on(left, &[(at, keep)]);
                assert_eq!(os, None, "{at} {keep:x}");
                let next = run_and_stop(&left, 6, None, 0);
                assert_eq!(power_on(next.kept, &[]).0, Some(next.os));
            }
        }
    }
}

/// The power fails again, and what comes of that is told, not what was before.
#[test]
fn another_cut_is_told_of_in_place_of_the_one_before() {
    for kept in started() {
        let cut = run_and_stop(&kept, 5, None, 0);
        let (_, running) = power_on(cut.kept, &[]);
        let late = run_and_stop(&running, 6, Some((4, 0)), 0);
        assert_eq!(found(&late.kept), Found::Refused(CutReason::PowerLost));
        let next = run_and_stop(&running, 6, None, 0);
        assert!(matches!(found(&next.kept), Found::Cut(_)));
    }
}

#[test]
fn every_step_of_stop_may_be_the_last() {
    for kept in started() {
        let before = run_and_stop(&kept, 1, None, 0);
        let (_, before) = power_on(before.kept, &[]);
        let steps = run_and_stop(&before, 3, None, 0).steps;
        let mut went_on = 0;
        for at in 1..=steps {
            for keep in KEEPS {
                let cut = run_and_stop(&before, 3, Some((at, keep)), keep);
                if matches!(found(&cut.kept), Found::Cut(_)) {
                    assert!(!cut.kept.has_key(), "step {at} of {steps}, {keep:x}");
                }
                if let (Some(os), _) = power_on(cut.kept, &[]) {
                    went_on += 1;
                    assert_eq!(os, cut.os, "step {at} of {steps}, {keep:x}");
                }
            }
        }
        assert!(
            (1..=10).contains(&went_on),
            "behind the commit alone: {went_on}"
        );
    }
}

#[test]
fn every_step_of_go_may_be_the_last_and_the_next_too() {
    for kept in started() {
        let cut = run_and_stop(&kept, 5, None, 0);
        for first in 1..14 {
            for second in 1..14 {
                for keep in KEEPS {
                    let fuel = [(first, keep), (second, keep)];
                    let (os, left) = power_on(cut.kept.clone(), &fuel);
                    assert_eq!(
                        found(&left),
                        found_behind(os.is_some()),
                        "{first} {second} {keep:x}"
                    );
                    if let Some(os) = os {
                        assert_eq!(os, cut.os);
                    }
                }
            }
        }
    }
}

#[test]
fn what_was_not_finished_says_why() {
    for kept in started() {
        let cut = run_and_stop(&kept, 5, Some((4, 0)), 0);
        assert_eq!(found(&cut.kept), Found::Refused(CutReason::PowerLost));
        let (started, left) = start(cut.kept, None);
        assert!(matches!(started, Start::Cold(Some(CutReason::PowerLost))));
        assert_eq!(found(&left), Found::Nothing, "it is said once");

        let machine = Machine::new(kept.clone());
        machine.proof.replace(kept.flash.proof());
        machine.stuck.set(Some(2));
        let reason = CutReason::HartNotStopped(2);
        assert_eq!(stop(&machine).err(), Some(reason));
        let left = machine.power_off(0);
        assert_eq!(found(&left), Found::Refused(reason));
        assert!(!left.has_key(), "nothing is left of it there either");

        let machine = Machine::new(kept.clone());
        machine.proof.replace(kept.flash.proof());
        machine.unclean.set(Some(1));
        let reason = CutReason::CachesLeft(1);
        assert_eq!(stop(&machine).err(), Some(reason));
        assert_eq!(found(&machine.power_off(0)), Found::Refused(reason));

        let machine = Machine::new(kept.clone());
        machine.proof.replace(kept.flash.proof());
        machine.is_key_used.set(true);
        assert_eq!(stop(&machine).err(), Some(CutReason::KeyLeft));
        let refused = Found::Refused(CutReason::KeyLeft);
        assert_eq!(found(&machine.power_off(0)), refused);
    }
}

/// The rehearsal counts on this number.
#[test]
fn stop_writes_few_lines_back_one_by_one() {
    for kept in started() {
        let machine = Machine::new(kept.clone());
        machine.proof.replace(kept.flash.proof());
        let before = machine.single_lines.get();
        stop(&machine).unwrap();
        let words = StopMachine::wear(&machine).len();
        let lines = machine.single_lines.get() - before;
        assert_eq!(lines, single_lines(words), "{words} words");
    }
}

/// The last calls that a cut that stops for the line makes, and one that the OS asks for; and
/// those of one that is refused at each of its steps.
#[test]
fn stop_has_one_order() {
    const ORDER: [&str; 9] = [
        "halt",
        "quiet",
        "shut",
        "gather",
        "capture",
        "forget",
        "flush",
        "wear",
        "has_memory_error",
    ];
    for kept in started() {
        let calls = |run: &dyn Fn(&Machine)| {
            let machine = Machine::new(kept.clone());
            machine.proof.replace(kept.flash.proof());
            run(&machine);
            machine.calls.take()
        };
        assert_eq!(calls(&|machine| _ = stop(machine).unwrap()), ORDER);
        assert_eq!(calls(&|machine| _ = request(machine).unwrap()), ORDER);
        let refused = |set: &dyn Fn(&Machine)| {
            calls(&|machine| {
                set(machine);
                stop(machine).unwrap_err();
            })
        };
        let unkept = CutReason::LiveDevice(0);
        type Fault<'f> = &'f dyn Fn(&Machine);
        let ends: [(usize, Fault<'_>); 5] = [
            (1, &|machine| machine.stuck.set(Some(1))),
            (2, &|machine| machine.unkept.set(Some(unkept))),
            (6, &|machine| machine.is_key_used.set(true)),
            (7, &|machine| machine.unclean.set(Some(1))),
            (9, &|machine| machine.has_error.set(true)),
        ];
        for (steps, set) in ends {
            let mut expected = ORDER[..steps].to_vec();
            expected.extend(["forget", "flush"]);
            assert_eq!(refused(set), expected);
        }
    }
}

#[test]
fn a_step_that_is_left_out_is_missed() {
    for kept in started() {
        let mutants = [
            Mutant::NoFlush,
            Mutant::NoLineWrittenBack(Place::Committed),
            Mutant::NoLineWrittenBack(Place::Begun),
        ];
        for mutant in mutants {
            let cut = run_and_stop_mutant(&kept, 9, None, 0, Some(mutant));
            let is_right = power_on(cut.kept, &[]).0 == Some(cut.os);
            // What is said of a cut that was committed does not matter.
            let expected = matches!(mutant, Mutant::NoLineWrittenBack(Place::Begun));
            assert_eq!(is_right, expected, "{mutant:?}");
        }
    }
    // Without the mark in memory it would be gone on with twice.
    let [kept, _] = started();
    let cut = run_and_stop(&kept, 5, None, 0);
    let machine = Machine::new(cut.kept);
    let mark = Mutant::NoLineWrittenBack(Place::Consumed);
    machine.mutant.set(Some(mark));
    go(&machine).unwrap();
    assert!(matches!(found(&machine.power_off(0)), Found::Cut(_)));
}

proptest! {
    /// A life of many cuts, of which some fail.
    #[test]
    fn a_life_goes_on_from_what_was_committed_last(
        lives in prop::collection::vec((any::<u64>(), 1usize..60, any::<u64>(),
            prop::collection::vec((1usize..14, any::<u64>()), 0..3)), 1..6),
        has_vault: bool,
    ) {
        let mut kept = started()[usize::from(has_vault)].clone();
        for (seed, fuel, keep, starts) in lives {
            let cut = run_and_stop(&kept, seed >> 1, Some((fuel, keep)), keep);
            let (os, left) = power_on(cut.kept, &starts);
            if cut.is_committed && starts.is_empty() {
                prop_assert_eq!(os, Some(cut.os));
            } else if let Some(os) = os {
                prop_assert_eq!(os, cut.os);
            }
            kept = left;
        }
    }

    /// Whatever the record is, it is no cut that memory does not hold.
    #[test]
    fn a_flipped_bit_is_found(at in 0usize..1000, bit in 0usize..512, has_vault: bool) {
        let kept = &started()[usize::from(has_vault)];
        let mut kept = run_and_stop(kept, 5, None, 0).kept;
        let is_record = |at: &At| matches!(at, At::Record(_) | At::Part(_));
        let record: Vec<At> = kept.memory.keys().copied().filter(is_record).collect();
        let at = record[at % record.len()];
        kept.memory.get_mut(&at).unwrap()[bit / 64] ^= 1 << (bit % 64);
        let (os, ..) = power_on(kept, &[]);
        // The lines that a cut has begun, and of the one before, are no part of it.
        let no_part = [Place::Begun, Place::Consumed].map(Kept::record);
        prop_assert_eq!(os.is_some(), no_part.contains(&at), "{:?} of {:?}", at, layout());
    }
}
