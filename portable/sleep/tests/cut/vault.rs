//! What a vault adds: nobody else's record is gone on with, and no old one, however often
//! memory is put back as it was.

use std::collections::BTreeMap;

use poorwill_image::{CutKey, SealingKey};
use poorwill_memory::checksum;
use poorwill_sleep::cut::{CutReason, Found, NoGo, Place, go};
use poorwill_vault::VaultError;
use proptest::prelude::*;

use crate::flash::{FAULT, Flash};
use crate::machine::{At, Kept, Machine, Mutant, Os, Words};
use crate::{KEEPS, Start, found, power_on, run_and_stop, run_and_stop_mutant, start, started};

fn with_vault() -> Kept {
    let [_, kept] = started();
    kept
}

/// Changes a line of the record, and makes its checksum fit, as anybody can.
fn forge(kept: &mut Kept, place: Place, change: impl FnOnce(&mut Words)) {
    let words = kept.memory.get_mut(&Kept::record(place)).unwrap();
    change(words);
    words[7] = checksum::of_words(&words[..7]);
}

fn refused(kept: &Kept) -> CutReason {
    let Found::Refused(reason) = found(kept) else {
        panic!("{:?}", found(kept));
    };
    reason
}

#[test]
fn a_forged_record_is_named() {
    let cut = run_and_stop(&with_vault(), 5, None, 0).kept;
    // In the order of docs/cut.md.
    for word in [2, 4] {
        let mut forged = cut.clone();
        forge(&mut forged, Place::Committed, |words| words[word] ^= 1);
        assert_eq!(refused(&forged), CutReason::Forged, "the tag");
    }
    let mut forged = cut.clone();
    forge(&mut forged, Place::Committed, |words| words[5] = 0);
    assert_eq!(refused(&forged), CutReason::Forged, "as without a vault");
    let mut forged = cut.clone();
    forge(&mut forged, Place::Committed, |words| words[1] += 1);
    assert_eq!(refused(&forged), CutReason::Forged, "a number to come");
    for word in [2, 3, 4] {
        let mut forged = cut.clone();
        forge(&mut forged, Place::Part(1), |words| words[word] ^= 1);
        assert_eq!(refused(&forged), CutReason::Forged, "an entry");
    }
    let mut forged = cut.clone();
    forged.memory.get_mut(&At::Part(2)).unwrap()[3] ^= 1;
    assert_eq!(refused(&forged), CutReason::Forged, "a part");
    // How long Stop took is told, and decides nothing.
    let mut told = cut;
    forge(&mut told, Place::Committed, |words| words[3] += 1);
    assert!(matches!(found(&told), Found::Cut(_)));
}

/// All of a record by somebody who has another key, or the key of another cut.
#[test]
fn another_key_makes_no_record() {
    let kept = with_vault();
    let cut = run_and_stop(&kept, 5, None, 0);
    for flash in [
        Flash::Vault {
            cut: 1,
            key: Some([9; 32]),
        },
        Flash::Absent,
    ] {
        let other = Kept {
            is_levelled: false,
            flash,
            ..kept.clone()
        };
        let mut forged = run_and_stop(&other, 5, None, 0).kept;
        assert!(matches!(found(&forged), Found::Cut(_)), "there it is one");
        forged.flash = kept.flash;
        assert_eq!(refused(&forged), CutReason::Forged);
    }
    let mut erased = cut.kept;
    erased.flash = Flash::Vault { cut: 1, key: None };
    assert_eq!(refused(&erased), CutReason::Forged);
    let keys = [1, 2].map(|number| CutKey::new(&SealingKey::new([9; 32]), number));
    let [first, second] = keys.map(|key| key.tag(0, [[0; 8]]));
    assert_ne!(first, second);
}

#[test]
fn an_old_record_is_named() {
    let first = run_and_stop(&with_vault(), 5, None, 0).kept;
    let (os, running) = power_on(first.clone(), &[]);
    assert!(os.is_some());
    let second = run_and_stop(&running, 6, None, 0).kept;
    let put_back = |memory: &Kept, flash: &Kept| Kept {
        is_levelled: false,
        memory: memory.memory.clone(),
        flash: flash.flash,
    };
    // While the machine runs behind it, and when it is cut again.
    assert_eq!(refused(&put_back(&first, &running)), CutReason::Old);
    assert_eq!(refused(&put_back(&first, &second)), CutReason::Old);
    // With a number that is the latest's it is not authentic.
    let mut renumbered = put_back(&first, &second);
    let parts = (0..crate::layout().parts()).map(Place::Part);
    for place in parts.chain([Place::Committed]) {
        forge(&mut renumbered, place, |words| words[1] += 1);
    }
    assert_eq!(refused(&renumbered), CutReason::Forged);
    // A cold boot is behind it.
    let (started, cold) = start(put_back(&first, &second), None);
    assert!(matches!(started, Start::Cold(Some(CutReason::Old))));
    assert_eq!(refused(&put_back(&second, &cold)), CutReason::Old);
}

#[test]
fn a_vault_that_tells_nothing_is_none_to_trust() {
    let cut = run_and_stop(&with_vault(), 5, None, 0).kept;
    let mut broken = cut.clone();
    broken.flash = Flash::Broken;
    assert_eq!(refused(&broken), CutReason::Vault);
    let machine = Machine::new(broken);
    assert_eq!(go(&machine).err(), Some(NoGo::Cold(Some(CutReason::Vault))));
    assert_eq!(machine.fault.get(), Some(FAULT), "and nothing is cut");
    assert!(machine.proof.borrow().is_none());
    let mut gone = cut.clone();
    gone.flash = Flash::Absent;
    assert_eq!(refused(&gone), CutReason::NoVault);
    // Where nothing was cut, it is still said, and nothing is cut.
    let mut idle = with_vault();
    idle.flash = Flash::Broken;
    let machine = Machine::new(idle);
    assert_eq!(go(&machine).err(), Some(NoGo::Cold(None)));
    assert_eq!(machine.fault.get(), Some(FAULT));
}

/// Its words fail to be written: the first while room is made, the second when it counts.
#[test]
fn a_vault_that_fails_lets_no_hart_run() {
    let cut = run_and_stop(&with_vault(), 5, None, 0).kept;
    let machine = Machine::new(cut.clone());
    machine.failing_write.set(1);
    assert_eq!(go(&machine).err(), Some(NoGo::Cold(Some(CutReason::Vault))));
    // All has been put back then: it cannot boot.
    let machine = Machine::new(cut.clone());
    machine.failing_write.set(2);
    assert_eq!(go(&machine).err(), Some(NoGo::Reset(CutReason::Vault)));
    let (started, left) = start(machine.power_off(0), None);
    assert!(matches!(started, Start::Cold(Some(CutReason::Vault))));
    let put_back = Kept {
        is_levelled: false,
        memory: cut.memory,
        flash: left.flash,
    };
    assert_eq!(refused(&put_back), CutReason::Old);
    let machine = Machine::new(with_vault());
    machine.failing_write.set(1);
    assert_eq!(go(&machine).err(), Some(NoGo::Cold(None)));
    let fault = VaultError::Flash(poorwill_vault::FlashFault::Device);
    assert_eq!(machine.fault.get(), Some(fault.into()));
}

/// Memory knows higher numbers than the vault: another vault's, or somebody's.
#[test]
fn the_vaults_numbers_are_what_counts() {
    for number in [7, u64::MAX - 1, u64::MAX] {
        for place in [Place::Begun, Place::Committed, Place::Consumed] {
            let first = run_and_stop(&with_vault(), 5, None, 0);
            let (_, mut kept) = power_on(first.kept, &[]);
            forge(&mut kept, place, |words| words[1] = number);
            let (started, left) = start(kept, None);
            assert!(matches!(started, Start::Cold(_)), "{place:?}");
            let cut = run_and_stop(&left, 6, None, 0);
            assert_eq!(
                power_on(cut.kept, &[]).0,
                Some(cut.os),
                "{place:?} {number}"
            );
        }
    }
}

/// Until the vault's word is written a cut is gone on with, whenever the power went before.
/// From there on it is not, and never anybody's.
#[test]
fn no_instant_of_go_loses_a_cut_that_the_vault_knows() {
    let cut = run_and_stop(&with_vault(), 5, None, 0);
    let latest = cut.kept.flash.cut();
    let mut counts = [0; 2];
    for first in 1..14 {
        for second in 1..14 {
            for keep in KEEPS {
                let mut kept = cut.kept.clone();
                let mut went = Vec::new();
                for fuel in [Some((first, keep)), Some((second, keep)), None] {
                    let is_good = kept.flash.cut() == latest;
                    let (started, left) = start(kept, fuel);
                    match started {
                        Start::Went(os) => went.push(*os),
                        Start::Cold(_) => assert!(!is_good || !went.is_empty()),
                        Start::Lost => {}
                        Start::Reset => panic!("nothing fails"),
                    }
                    kept = left;
                }
                assert!(went.is_empty() || went == [cut.os]);
                counts[went.len()] += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

#[test]
fn what_the_vault_is_for_is_missed_where_it_is_left_out() {
    // It does not move: an old record goes on a second time.
    let kept = with_vault();
    let cut = run_and_stop(&kept, 5, None, 0).kept;
    let machine = Machine::new(cut.clone());
    machine.mutant.set(Some(Mutant::NoNextCut));
    go(&machine).unwrap();
    let put_back = Kept {
        is_levelled: false,
        memory: cut.memory.clone(),
        flash: machine.power_off(0).flash,
    };
    assert!(matches!(found(&put_back), Found::Cut(_)));
    // The key is left.
    let mutant = Some(Mutant::NotForgotten);
    assert!(
        run_and_stop_mutant(&kept, 5, None, 0, mutant)
            .kept
            .has_key()
    );
    let mutant = Some(Mutant::NoFlush);
    assert!(
        run_and_stop_mutant(&kept, 5, None, 0, mutant)
            .kept
            .has_key()
    );
}

proptest! {
    /// A life of cuts in which the power goes at any step, and somebody who has all that
    /// memory ever was puts any of it back.
    #[test]
    fn nobody_runs_twice_and_none_behind_another(
        lives in prop::collection::vec((any::<u64>(), prop::option::of((1usize..60, any::<u64>())),
            prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(),
                prop::option::of((1usize..16, any::<u64>()))), 1..5)), 1..8),
    ) {
        let mut kept = with_vault();
        let mut memories = vec![kept.memory.clone()];
        // How often each cut was gone on with, by what its harts were at.
        let mut releases: BTreeMap<Os, u32> = BTreeMap::new();
        for (life, (seed, fuel, starts)) in (0..).zip(lives) {
            // No two lives have the same.
            let seed = seed >> 8 << 6 | life << 2;
            let keep = fuel.map_or(0, |(_, keep)| keep);
            let cut = run_and_stop(&kept, seed, fuel, keep);
            kept = cut.kept;
            memories.push(kept.memory.clone());
            // Of all cuts the latest alone may go on, until the first start that is done.
            let mut latest = Some(cut.os);
            for (old, is_put_back, fuel) in starts {
                if is_put_back {
                    kept.memory = memories[old.index(memories.len())].clone();
                }
                let (started, left) = start(kept, fuel);
                kept = left;
                memories.push(kept.memory.clone());
                match started {
                    Start::Went(os) => {
                        prop_assert_eq!(latest.take(), Some(*os));
                        *releases.entry(*os).or_default() += 1;
                    }
                    Start::Cold(_) => latest = None,
                    Start::Lost | Start::Reset => {}
                }
            }
            // An OS runs before it is cut again.
            let (started, left) = start(kept, None);
            if let Start::Went(os) = started {
                prop_assert_eq!(latest.take(), Some(*os));
                *releases.entry(*os).or_default() += 1;
            }
            kept = left;
            memories.push(kept.memory.clone());
        }
        prop_assert!(releases.values().all(|count| *count == 1));
    }
}
