//! The transitions of a domain's state.

use poorwill_domain::{DomainCell, DomainState, WrongDomainState, sleep_all};

type Step = fn(&DomainCell) -> Result<(), WrongDomainState>;

const STEPS: [(Step, DomainState, DomainState); 7] = {
    use DomainState::{Asleep, Ended, Parked, Running, Waking};
    [
        (DomainCell::park, Running, Parked),
        (DomainCell::unpark, Parked, Running),
        (DomainCell::sleep, Parked, Asleep),
        (DomainCell::stay_parked, Asleep, Parked),
        (DomainCell::wake, Asleep, Waking),
        (DomainCell::run, Waking, Running),
        (DomainCell::end, Running, Ended),
    ]
};

/// Steps that lead a new cell to the state.
fn at(state: DomainState) -> DomainCell {
    let cell = DomainCell::new();
    let steps: &[Step] = match state {
        DomainState::Waking => &[],
        DomainState::Running => &[DomainCell::run],
        DomainState::Parked => &[DomainCell::run, DomainCell::park],
        DomainState::Asleep => &[DomainCell::run, DomainCell::park, DomainCell::sleep],
        DomainState::Ended => &[DomainCell::run, DomainCell::end],
    };
    steps.iter().for_each(|step| step(&cell).unwrap());
    assert_eq!(cell.state(), state);
    cell
}

#[test]
fn each_step_leaves_one_state_alone() {
    use DomainState::{Asleep, Ended, Parked, Running, Waking};
    for state in [Running, Parked, Asleep, Waking, Ended] {
        for (step, from, to) in STEPS {
            let cell = at(state);
            if from == state {
                assert_eq!(step(&cell), Ok(()));
                assert_eq!(cell.state(), to);
            } else {
                assert_eq!(step(&cell), Err(WrongDomainState(state)));
                assert_eq!(cell.state(), state);
            }
        }
    }
}

#[test]
fn all_sleep_or_none() {
    use DomainState::{Asleep, Ended, Parked, Running, Waking};
    let states = [Parked, Ended, Parked];
    let cells = states.map(at);
    assert_eq!(sleep_all(cells.iter()), Ok(()));
    let found = cells.each_ref().map(DomainCell::state);
    assert_eq!(found, [Asleep, Ended, Asleep]);
    for obstacle in [Running, Asleep, Waking] {
        let cells = [Parked, Ended, obstacle, Parked].map(at);
        let refused = Err((2, WrongDomainState(obstacle)));
        assert_eq!(sleep_all(cells.iter()), refused);
        let found = cells.each_ref().map(DomainCell::state);
        assert_eq!(found, [Parked, Ended, obstacle, Parked]);
    }
}
