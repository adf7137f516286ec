//! Cuts that are given up: by somebody, or as a device is not what it was.

use poorwill_pci::Function;
use poorwill_sleep::VaultState;
use poorwill_sleep::cut::fake::FakeRecord;
use poorwill_sleep::cut::{
    CutReason, Found, Guard, Newest, NoGo, Proof, discard, find, go, note, take_back,
};

use crate::machine::{Kept, Machine};
use crate::{KEEPS, found, found_behind, power_on, run_and_stop, started};

const CHANGED: CutReason = CutReason::FunctionChanged(Function {
    bus: 0,
    device: 3,
    function: 1,
});

/// A start of a machine with another device than the cut is of.
fn start_changed(kept: &Kept, fuel: Option<(usize, u64)>) -> (Option<NoGo>, Kept) {
    let machine = Machine::new(kept.clone());
    machine.changed.set(Some(CHANGED));
    machine.fuel.set(fuel);
    let refused = go(&machine).err();
    let refused = refused.filter(|_| machine.is_on());
    if refused.is_some() {
        assert!(machine.proof.borrow().is_some(), "it may be cut again");
    }
    (refused, machine.power_off(0))
}

#[test]
fn a_device_that_is_another_gives_the_cut_up() {
    for kept in started() {
        let cut = run_and_stop(&kept, 5, None, 0);
        let (refused, left) = start_changed(&cut.kept, None);
        assert_eq!(refused, Some(NoGo::Cold(Some(CHANGED))));
        assert_eq!(found(&left), Found::Nothing, "it is said once");
        if left.flash.cut() > 0 {
            // The vault has moved on, as behind every refusal.
            let put_back = Kept {
                is_levelled: false,
                memory: cut.kept.memory,
                flash: left.flash,
            };
            assert_eq!(found(&put_back), Found::Refused(CutReason::Old));
        }
        let next = run_and_stop(&left, 6, None, 0);
        assert_eq!(power_on(next.kept, &[]).0, Some(next.os));
    }
}

/// The power goes on the way to that, and somebody puts the device back, or not.
#[test]
fn every_step_of_giving_up_may_be_the_last() {
    for kept in started() {
        let cut = run_and_stop(&kept, 5, None, 0);
        let mut outcomes = [0; 2];
        for at in 1..14 {
            for keep in KEEPS {
                let (refused, left) = start_changed(&cut.kept, Some((at, keep)));
                let (os, right) = power_on(left.clone(), &[]);
                assert!(os.is_none() || os == Some(cut.os) && refused.is_none());
                outcomes[usize::from(os.is_some())] += 1;
                assert_eq!(found(&right), found_behind(os.is_some()));
                let (_, still) = start_changed(&left, None);
                assert_eq!(found(&still), Found::Nothing);
            }
        }
        assert!(outcomes.iter().all(|count| *count > 10), "{outcomes:?}");
    }
}

#[test]
fn a_discarded_cut_is_none_and_the_next_has_another_number() {
    let find = |record: &FakeRecord| find(record, &Guard::at_start(VaultState::Absent));
    let record = FakeRecord::new(&[true, false]);
    assert_eq!(Newest::in_record(&record), None);
    record.stop().unwrap();
    let newest = Newest::in_record(&record).unwrap();
    assert!(matches!(find(&record), Found::Cut(_)) && !newest.is_consumed);
    discard(&record);
    assert_eq!(find(&record), Found::Nothing);
    let newest = Newest::in_record(&record).unwrap();
    assert_eq!((newest.sequence, newest.is_consumed), (1, true));
    // It is told of all the same, as long as it is there.
    let look = newest.look(&record).unwrap();
    assert_eq!((look.report.sequence, look.is_tagged), (1, false));
    record.stop().unwrap();
    let Found::Cut(report) = find(&record) else {
        panic!("no cut");
    };
    assert_eq!(report.sequence, 2);
}

/// Whoever has not the vault is told what the lines say, and that it proves nothing.
#[test]
fn a_cut_with_tags_is_told_of_without_the_vault() {
    let kept = started();
    let [without, with] = kept.map(|kept| {
        let machine = Machine::new(run_and_stop(&kept, 5, None, 0).kept);
        let newest = Newest::in_record(&machine).unwrap();
        newest.look(&machine).unwrap()
    });
    assert_eq!((without.is_tagged, with.is_tagged), (false, true));
    assert_eq!(without.report, with.report);
}

/// A machine with a vault whose cut was discarded boots cold, and is cut again.
#[test]
fn a_cut_with_tags_is_discarded() {
    for kept in started() {
        let machine = Machine::new(run_and_stop(&kept, 5, None, 0).kept);
        discard(&machine);
        let left = machine.power_off(0);
        assert_eq!(found(&left), Found::Nothing);
        let (os, left) = power_on(left, &[]);
        assert_eq!(os, None);
        let next = run_and_stop(&left, 6, None, 0);
        assert_eq!(power_on(next.kept, &[]).0, Some(next.os));
    }
}

/// The power goes while an image is loaded, or behind that.
#[test]
fn what_is_noted_is_said_unless_it_is_taken_back() {
    for kept in started() {
        let proof = kept.flash.proof();
        let number = proof.as_ref().and_then(Proof::number);
        for keep in KEEPS {
            let machine = Machine::new(kept.clone());
            note(&machine, number, CutReason::Loading);
            let left = machine.power_off(keep);
            assert_eq!(found(&left), Found::Refused(CutReason::Loading));
            let machine = Machine::new(left);
            let refused = NoGo::Cold(Some(CutReason::Loading));
            assert_eq!(go(&machine).err(), Some(refused));
            let next = run_and_stop(&machine.power_off(keep), 6, None, 0);
            assert_eq!(power_on(next.kept, &[]).0, Some(next.os));

            let machine = Machine::new(kept.clone());
            note(&machine, number, CutReason::Loading);
            take_back(&machine);
            let left = machine.power_off(keep);
            assert_eq!(found(&left), Found::Nothing);
            let next = run_and_stop(&left, 6, None, 0);
            assert_eq!(power_on(next.kept, &[]).0, Some(next.os));
        }
    }
}
