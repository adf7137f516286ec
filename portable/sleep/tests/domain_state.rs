//! The transitions of a domain's state.

use poorwill_sleep::{DomainCell, DomainState, WrongDomainState};

type Step = fn(&DomainCell) -> Result<(), WrongDomainState>;

const STEPS: [(Step, DomainState, DomainState); 10] = {
    use DomainState::{Asleep, Ended, Parked, Parking, Running, Waking};
    [
        (DomainCell::begin_park, Running, Parking),
        (DomainCell::park, Parking, Parked),
        (DomainCell::stay_running, Parking, Running),
        (DomainCell::unpark, Parked, Running),
        (DomainCell::sleep, Parked, Asleep),
        (DomainCell::stay_parked, Asleep, Parked),
        (DomainCell::wake, Asleep, Waking),
        (DomainCell::run, Waking, Running),
        (DomainCell::end, Running, Ended),
        (DomainCell::end, Parking, Ended),
    ]
};

/// Steps that lead a new cell to the state.
fn at(state: DomainState) -> DomainCell {
    let cell = DomainCell::new();
    let steps: &[Step] = match state {
        DomainState::Waking => &[],
        DomainState::Running => &[DomainCell::run],
        DomainState::Parking => &[DomainCell::run, DomainCell::begin_park],
        DomainState::Parked => &[DomainCell::run, DomainCell::begin_park, DomainCell::park],
        DomainState::Asleep => &[
            DomainCell::run,
            DomainCell::begin_park,
            DomainCell::park,
            DomainCell::sleep,
        ],
        DomainState::Ended => &[DomainCell::run, DomainCell::end],
    };
    steps.iter().for_each(|step| step(&cell).unwrap());
    assert_eq!(cell.state(), state);
    cell
}

#[test]
fn each_step_leaves_its_states_alone() {
    use DomainState::{Asleep, Ended, Parked, Parking, Running, Waking};
    for state in [Running, Parking, Parked, Asleep, Waking, Ended] {
        for (step, from, to) in STEPS {
            let cell = at(state);
            let is_end = to == Ended && [Running, Parking].contains(&state);
            if from == state || is_end {
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
fn harts_start_in_a_running_domain_alone() {
    use DomainState::{Asleep, Ended, Parked, Parking, Running, Waking};
    for state in [Running, Parking, Parked, Asleep, Waking, Ended] {
        assert_eq!(at(state).may_start_hart(), state == Running);
    }
}
