//! HSM: only the specification's edges exist.

use poorwill_hart::{HsmCell, HsmState, Task, WrongState};
use poorwill_memory::EntryPoint;

const TASK: Task = Task::Start(EntryPoint {
    address: 0x8020_0000,
    argument: 7,
});

/// A cell in each state that a hart can be found in between calls.
fn cell(state: HsmState) -> HsmCell {
    let cell = HsmCell::new();
    let local = cell.local();
    let start = || {
        cell.remote().start(TASK).unwrap();
        local.starting().expect("a task").started().unwrap();
    };
    match state {
        HsmState::Stopped => {}
        HsmState::StartPending => cell.remote().start(TASK).unwrap(),
        HsmState::Started => start(),
        HsmState::StopPending => {
            start();
            local.stop().unwrap();
        }
        HsmState::Suspended => {
            start();
            local.suspend().unwrap();
        }
        HsmState::SuspendPending | HsmState::ResumePending => unreachable!("within a call"),
    }
    assert_eq!(cell.remote().state(), state);
    cell
}

#[test]
fn a_transition_is_made_from_its_own_state_only() {
    let states = [
        HsmState::Stopped,
        HsmState::StartPending,
        HsmState::Started,
        HsmState::StopPending,
        HsmState::Suspended,
    ];
    type Edge = (HsmState, HsmState, fn(&HsmCell) -> Result<(), WrongState>);
    let edges: [Edge; 5] = [
        (HsmState::Stopped, HsmState::StartPending, |cell| {
            cell.remote().start(TASK)
        }),
        (HsmState::Started, HsmState::StopPending, |cell| {
            cell.local().stop()
        }),
        (HsmState::StopPending, HsmState::Stopped, |cell| {
            cell.local().stopped()
        }),
        (HsmState::Started, HsmState::Suspended, |cell| {
            cell.local().suspend()
        }),
        (HsmState::Suspended, HsmState::Started, |cell| {
            cell.local().resume()
        }),
    ];
    for (from, to, make) in edges {
        for state in states {
            let cell = cell(state);
            if state == from {
                assert_eq!(make(&cell), Ok(()));
                assert_eq!(cell.local().state(), to);
            } else {
                assert_eq!(make(&cell), Err(WrongState(state)), "{state:?} -> {to:?}");
                assert_eq!(cell.local().state(), state, "nothing has changed");
            }
        }
    }
}

#[test]
fn a_start_brings_its_task() {
    for state in [HsmState::Stopped, HsmState::Started, HsmState::StopPending] {
        assert!(cell(state).local().starting().is_none(), "{state:?}");
    }
    let cell = HsmCell::new();
    let resume = EntryPoint {
        address: 0x1234_5678,
        argument: u64::MAX,
    };
    for task in [Task::Wake(resume), Task::Start(resume)] {
        cell.remote().start(task).unwrap();
        let local = cell.local();
        let (starting, again) = (local.starting().unwrap(), local.starting().unwrap());
        assert_eq!(starting.task(), task);
        assert_eq!(starting.started(), Ok(()));
        assert_eq!(again.started(), Err(WrongState(HsmState::Started)));
        local.stop().unwrap();
        local.stopped().unwrap();
    }
}

#[test]
fn a_start_while_the_os_is_lent_is_left_to_the_weak_hart() {
    let cell = cell(HsmState::StartPending);
    assert!(cell.local().starting_unless(|| true).is_none());
    assert_eq!(cell.remote().state(), HsmState::StartPending);
    let starting = cell.local().starting_unless(|| false).unwrap();
    assert_eq!(starting.task(), TASK);
    let stopped = HsmCell::new();
    assert!(stopped.local().starting_unless(|| false).is_none());
}

#[test]
fn numbers_are_the_specifications() {
    let numbers = [
        (HsmState::Started, 0),
        (HsmState::Stopped, 1),
        (HsmState::StartPending, 2),
        (HsmState::StopPending, 3),
        (HsmState::Suspended, 4),
        (HsmState::SuspendPending, 5),
        (HsmState::ResumePending, 6),
    ];
    assert_eq!(numbers.map(|(state, _)| state), HsmState::ALL);
    for (state, number) in numbers {
        assert_eq!(state as u8, number);
        assert_eq!(HsmState::from_number(number), Some(state));
    }
    for unknown in 7..=u8::MAX {
        assert_eq!(HsmState::from_number(unknown), None);
    }
}
