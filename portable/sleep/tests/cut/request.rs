//! A sleep that is a cut: its OS asks for it, and goes on where it is refused.

use poorwill_sleep::cut::{CutCause, CutReason, Found, NoGo, go, request, stop};
use poorwill_vault::VaultError;
use proptest::prelude::*;

use crate::flash::Flash;
use crate::machine::{Kept, Machine, Mutant, Os};
use crate::{KEEPS, Start, found, power_on, run_and_stop, start, started};

const UNKEPT: CutReason = CutReason::LiveDevice(0x1000_8000);

/// A machine that runs.
fn running(kept: &Kept, seed: u64) -> Machine {
    let machine = Machine::new(kept.clone());
    machine.proof.replace(kept.flash.proof());
    machine.run(seed);
    machine.steps.set(0);
    machine
}

/// Has a machine ask for a cut, with the power gone after so many steps. Returns whether it is
/// committed, the OS, and what is left.
fn run_and_request(kept: &Kept, fuel: Option<(usize, u64)>, keep: u64) -> (bool, Os, Kept, usize) {
    let machine = running(kept, 3);
    machine.fuel.set(fuel);
    let is_committed = request(&machine).is_ok() && machine.is_on();
    let (os, steps) = (machine.os(), machine.steps.get());
    (is_committed, os, machine.power_off(keep), steps)
}

/// Whether nothing is gone on with again; of a machine that has gone on, and lost its power
/// behind that, the next start says so.
fn is_over(kept: &Kept) -> bool {
    matches!(
        found(kept),
        Found::Nothing | Found::Refused(CutReason::NoOther(_))
    )
}

#[test]
fn a_requested_cut_is_gone_on_with_once_and_is_told_from_others() {
    for kept in started() {
        let (is_committed, os, left, _) = run_and_request(&kept, None, 0);
        assert!(is_committed && !left.has_key());
        let Found::Cut(report) = found(&left) else {
            panic!("it is committed");
        };
        assert_eq!(report.cause, CutCause::Requested);
        let (went, left) = power_on(left, &[]);
        assert_eq!(went, Some(os));
        assert!(is_over(&left));
        let cut = run_and_stop(&left, 5, None, 0);
        let Found::Cut(report) = found(&cut.kept) else {
            panic!("it is committed");
        };
        assert_eq!(report.cause, CutCause::PowerFailed);
    }
}

/// Until it is committed it is none, and the next start says why.
#[test]
fn every_step_of_a_request_may_be_the_last() {
    for kept in started() {
        let steps = run_and_request(&kept, None, 0).3;
        let mut went_on = 0;
        for at in 1..=steps {
            for keep in KEEPS {
                let (_, os, left, _) = run_and_request(&kept, Some((at, keep)), keep);
                if matches!(found(&left), Found::Cut(_)) {
                    assert!(!left.has_key(), "step {at} of {steps}, {keep:x}");
                }
                let (started, left) = start(left, None);
                match started {
                    Start::Went(went) => {
                        assert_eq!(*went, os);
                        went_on += 1;
                    }
                    // Where not even its beginning is in memory, nobody knows of it.
                    Start::Cold(None) => assert!(at <= 2, "step {at} of {steps}, {keep:x}"),
                    Start::Cold(Some(reason)) => assert_eq!(reason, CutReason::PowerLost),
                    other => panic!("{other:?}"),
                }
                assert!(is_over(&left), "once");
            }
        }
        assert!(
            (1..=10).contains(&went_on),
            "behind the commit alone: {went_on}"
        );
    }
}

/// A device without a keeper, or a hart that is not stopped: the machine goes on, as it was,
/// with its devices, and the next cut is one.
#[test]
fn a_request_that_is_refused_leaves_the_machine_as_it_was() {
    for kept in started() {
        for refused in [UNKEPT, CutReason::HartNotStopped(1)] {
            let machine = running(&kept, 3);
            let os = machine.os();
            let set = |is_refused: bool| match refused {
                UNKEPT => machine.unkept.set(is_refused.then_some(UNKEPT)),
                _ => machine.stuck.set(is_refused.then_some(1)),
            };
            for _ in 0..3 {
                set(true);
                assert_eq!(request(&machine).err(), Some(refused));
                assert!(machine.os() == os && !machine.traffic.is_quiet.get());
                assert!(!machine.traffic.is_shut.get(), "controllers send messages");
                assert_eq!(find_now(&machine), Found::Nothing, "none was begun");
            }
            set(false);
            let next = machine.proof.borrow().as_ref().map(proof_number);
            let latest = machine.flash.get().cut();
            assert_eq!(next.flatten().unwrap_or(latest), latest, "by another key");
            // It is cut, as the power fails or as it asks again.
            machine.run(7);
            let os = machine.os();
            let is_cut = match refused {
                UNKEPT => stop(&machine).is_ok(),
                _ => request(&machine).is_ok(),
            };
            assert!(is_cut);
            assert_eq!(power_on(machine.power_off(0), &[]).0, Some(os));
        }
    }
}

fn find_now(machine: &Machine) -> Found {
    let kept = Kept {
        memory: machine.as_harts_see(),
        flash: machine.flash.get(),
        is_levelled: false,
    };
    found(&kept)
}

fn proof_number(proof: &poorwill_sleep::cut::Proof) -> Option<u64> {
    match proof {
        poorwill_sleep::cut::Proof::Checksums => None,
        poorwill_sleep::cut::Proof::Tags { number, .. } => Some(*number),
    }
}

/// The power goes on the way to that.
#[test]
fn every_step_of_a_refused_request_may_be_the_last() {
    for kept in started() {
        let refuse = |fuel| {
            let machine = running(&kept, 3);
            machine.unkept.set(Some(UNKEPT));
            machine.fuel.set(fuel);
            assert_eq!(request(&machine).err(), Some(UNKEPT));
            machine
        };
        let steps = refuse(None).steps.get();
        let mut outcomes = [0; 2];
        for at in 1..=steps {
            for keep in KEEPS {
                let left = refuse(Some((at, keep))).power_off(keep);
                let (started, left) = start(left, None);
                match started {
                    Start::Cold(None) => outcomes[0] += 1,
                    // It is not known whether it would have been one.
                    Start::Cold(Some(CutReason::PowerLost | CutReason::Old)) => outcomes[1] += 1,
                    other => panic!("step {at} of {steps}, {keep:x}: {other:?}"),
                }
                assert_eq!(found(&left), Found::Nothing, "once");
                let next = run_and_stop(&left, 6, None, 0);
                assert_eq!(power_on(next.kept, &[]).0, Some(next.os));
            }
        }
        assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    }
}

/// The key of a cut that was given up proves no other one: one key, one message for each part.
#[test]
fn a_vault_that_does_not_move_on_lets_nothing_be_cut() {
    let [_, kept] = started();
    let machine = running(&kept, 3);
    machine.unkept.set(Some(UNKEPT));
    machine.failing_write.set(1);
    assert_eq!(request(&machine).err(), Some(UNKEPT));
    let fault = VaultError::Flash(poorwill_vault::FlashFault::Device);
    assert_eq!(machine.fault.get(), Some(fault.into()));
    // By the line neither: and the next start says so.
    assert_eq!(stop(&machine).err(), Some(CutReason::Vault));
    let left = machine.power_off(0);
    assert_eq!(
        go(&Machine::new(left)).err(),
        Some(NoGo::Cold(Some(CutReason::Vault)))
    );
}

#[test]
fn a_step_of_a_request_that_is_left_out_is_missed() {
    for kept in started() {
        let machine = running(&kept, 3);
        machine.unkept.set(Some(UNKEPT));
        machine.mutant.set(Some(Mutant::NotResumed));
        request(&machine).unwrap_err();
        assert!(machine.traffic.is_quiet.get(), "devices stay quiet");
        let machine = running(&kept, 3);
        machine.mutant.set(Some(Mutant::NoFlush));
        let os = machine.os();
        request(&machine).unwrap();
        assert_ne!(power_on(machine.power_off(0), &[]).0, Some(os));
    }
    // It would have one key prove two records.
    let [_, kept] = started();
    let machine = running(&kept, 3);
    machine.unkept.set(Some(UNKEPT));
    machine.mutant.set(Some(Mutant::NoNextCut));
    request(&machine).unwrap_err();
    let proof = machine.proof.borrow();
    let number = proof.as_ref().and_then(proof_number);
    assert_ne!(number, Some(machine.flash.get().cut()));
}

proptest! {
    /// A machine sleeps, is refused, and has its power fail, in any order.
    #[test]
    fn a_life_of_sleeps_and_failures_goes_on_from_the_last(
        lives in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<bool>(), 0..3),
            any::<bool>(), any::<u64>()), 1..6),
        has_vault: bool,
    ) {
        let mut kept = started()[usize::from(has_vault)].clone();
        for (seed, refusals, is_requested, keep) in lives {
            let machine = running(&kept, seed.into());
            for is_device in refusals {
                machine.unkept.set(is_device.then_some(UNKEPT));
                machine.stuck.set((!is_device).then_some(2));
                prop_assert!(request(&machine).is_err());
            }
            machine.unkept.set(None);
            machine.stuck.set(None);
            let os = machine.os();
            let is_cut = match is_requested {
                true => request(&machine).is_ok(),
                false => stop(&machine).is_ok(),
            };
            prop_assert!(is_cut);
            let (went, left) = power_on(machine.power_off(keep), &[]);
            prop_assert_eq!(went, Some(os));
            prop_assert!(matches!(left.flash, Flash::Absent) || has_vault);
            kept = left;
        }
    }
}
