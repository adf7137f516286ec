//! A memory controller that tells of an error that cannot be corrected.

use poorwill_sleep::cut::{CutReason, Found, GoMachine, NoGo, go, note, stop};

use crate::machine::{At, Kept, Machine};
use crate::{KEEPS, found, run_and_stop, start, started};

/// What the controller can, and when it tells.
#[derive(Clone, Copy, Debug)]
struct Controller {
    can_wipe: bool,
    wipes_record: bool,
    /// Not before devices are put back.
    late: bool,
}

const CONTROLLERS: [Controller; 4] = {
    const fn controller(can_wipe: bool, wipes_record: bool, late: bool) -> Controller {
        Controller {
            can_wipe,
            wipes_record,
            late,
        }
    }
    [
        controller(false, false, false),
        controller(true, false, false),
        controller(true, true, false),
        controller(true, false, true),
    ]
};

impl Controller {
    /// What a later start tells, after an error that the record has.
    fn told(self) -> Option<CutReason> {
        match self {
            Controller {
                can_wipe: false, ..
            } => Some(CutReason::MemoryError),
            Controller {
                wipes_record: true, ..
            } => None,
            _ => Some(CutReason::Wiped),
        }
    }

    fn machine(self, kept: &Kept, tells: bool) -> Machine {
        let machine = Machine::new(kept.clone());
        machine.can_wipe.set(self.can_wipe);
        machine.wipes_record.set(self.wipes_record);
        machine.has_error.set(tells && !self.late);
        machine.fails_in_restore.set(tells && self.late);
        machine
    }
}

fn has_os_memory(kept: &Kept) -> bool {
    kept.memory.keys().any(|at| matches!(at, At::Os(_)))
}

/// Starts that follow, whose controller tells of nothing any more.
fn told_then(controller: Controller, mut kept: Kept) -> (Option<CutReason>, Kept) {
    for _ in 0..3 {
        let machine = controller.machine(&kept, false);
        let result = go(&machine);
        let left = machine.power_off(0);
        match result {
            Err(NoGo::Reset(_)) => kept = left,
            Err(NoGo::Cold(reason)) => return (reason, left),
            Ok(_) => panic!("it went on: {controller:?}"),
        }
    }
    panic!("it is reset for ever: {controller:?}");
}

#[test]
fn a_cut_of_bad_memory_is_not_gone_on_with() {
    for kept in started() {
        for controller in CONTROLLERS {
            let cut = run_and_stop(&kept, 5, None, 0);
            let machine = controller.machine(&cut.kept, true);
            let refused = go(&machine).err();
            let mut left = machine.power_off(0);
            if controller.can_wipe {
                assert_eq!(refused, Some(NoGo::Reset(CutReason::MemoryError)));
                let (reason, next) = told_then(controller, left);
                let told = (!controller.wipes_record).then_some(CutReason::Wiped);
                assert_eq!(reason, told, "{controller:?}");
                assert!(!has_os_memory(&next), "{controller:?}");
                left = next;
            } else {
                let cold = NoGo::Cold(Some(CutReason::MemoryError));
                assert_eq!(refused, Some(cold));
            }
            assert_eq!(found(&left), Found::Nothing, "{controller:?}");
            let next = run_and_stop(&left, 6, None, 0);
            let (started, _) = start(next.kept, None);
            assert!(matches!(started, crate::Start::Went(os) if *os == next.os));
        }
    }
}

#[test]
fn stop_commits_no_bad_memory() {
    for kept in started() {
        for controller in CONTROLLERS {
            let machine = Machine::new(kept.clone());
            machine.proof.replace(kept.flash.proof());
            machine.run(3);
            machine.has_error.set(true);
            assert_eq!(stop(&machine).err(), Some(CutReason::MemoryError));
            let left = machine.power_off(0);
            assert!(has_os_memory(&left) && !left.has_key());
            let (reason, left) = told_then(controller, left);
            assert_eq!(reason, controller.told(), "{controller:?}");
            assert_eq!(has_os_memory(&left), !controller.can_wipe);
            assert_eq!(found(&left), Found::Nothing);
        }
    }
}

/// A controller that tells for ever, or wherever the power goes midway: no start goes on, and
/// none is reset for ever.
#[test]
fn every_step_of_wiping_may_be_the_last() {
    for kept in started() {
        for controller in CONTROLLERS {
            let cut = run_and_stop(&kept, 5, None, 0);
            for (at, keep) in (1..20).flat_map(|at| KEEPS.map(|keep| (at, keep))) {
                let machine = controller.machine(&cut.kept, true);
                machine.fuel.set(Some((at, keep)));
                _ = go(&machine);
                let mut left = machine.power_off(keep);
                let mut ends = false;
                for _ in 0..4 {
                    let machine = controller.machine(&left, true);
                    let result = go(&machine);
                    left = machine.power_off(0);
                    ends = matches!(result, Err(NoGo::Cold(_)));
                    assert!(result.is_err(), "{controller:?} {at} {keep:x}");
                    if ends {
                        break;
                    }
                }
                assert!(
                    ends || controller.wipes_record,
                    "{controller:?} {at} {keep:x}"
                );
            }
        }
    }
}

/// A hart reads bad memory during Go, or once the OS runs, and panics with a note.
#[test]
fn a_trap_by_bad_memory_ends_the_cut() {
    for kept in started() {
        for controller in CONTROLLERS {
            let cut = run_and_stop(&kept, 5, None, 0);
            for (at, keep) in (1..40).flat_map(|at| KEEPS.map(|keep| (at, keep))) {
                let machine = controller.machine(&cut.kept, false);
                machine.fuel.set(Some((at, keep)));
                _ = go(&machine);
                let machine = controller.machine(&machine.power_off(keep), false);
                note(machine.record(), None, CutReason::MemoryError);
                let (reason, left) = told_then(controller, machine.power_off(0));
                assert_eq!(reason, controller.told(), "{controller:?} {at} {keep:x}");
                assert_eq!(found(&left), Found::Nothing, "{controller:?} {at} {keep:x}");
            }
        }
    }
}
