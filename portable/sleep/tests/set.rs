//! Sets of one to eight domains, in all states: who keeps the machine awake, who falls asleep, and
//! who wakes next.

use DomainState::{Asleep, Ended, Parked, Parking, Running, Waking};
use poorwill_sleep::{DomainCell, DomainSet, DomainState, Remaining};
use proptest::prelude::*;

/// A cell in this state.
fn at(state: DomainState) -> DomainCell {
    let cell = DomainCell::new();
    let steps: &[fn(&DomainCell) -> Result<(), _>] = match state {
        Waking => &[],
        Running => &[DomainCell::run],
        Parking => &[DomainCell::run, DomainCell::begin_park],
        Parked => &[DomainCell::run, DomainCell::begin_park, DomainCell::park],
        Asleep => &[
            DomainCell::run,
            DomainCell::begin_park,
            DomainCell::park,
            DomainCell::sleep,
        ],
        Ended => &[DomainCell::run, DomainCell::end],
    };
    steps.iter().for_each(|step| step(&cell).unwrap());
    cell
}

fn states(cells: &[DomainCell]) -> Vec<DomainState> {
    cells.iter().map(DomainCell::state).collect()
}

fn index_of(cells: &[DomainCell], found: &DomainCell) -> usize {
    let is_found = |cell: &DomainCell| core::ptr::eq(cell, found);
    cells.iter().position(is_found).expect("it is of the set")
}

/// One to eight states.
fn sets() -> impl Strategy<Value = Vec<DomainState>> {
    let state = prop::sample::select(&[Running, Parking, Parked, Asleep, Waking, Ended][..]);
    prop::collection::vec(state, 1..=8)
}

/// Sets that may sleep: each domain is parked or has ended.
fn quiet_sets() -> impl Strategy<Value = Vec<DomainState>> {
    prop::collection::vec(prop::sample::select(&[Parked, Ended][..]), 1..=8)
}

proptest! {
    /// Each domain but the master, if it is neither parked nor ended.
    #[test]
    fn the_first_domain_that_is_awake_is_named(before in sets(), master: prop::sample::Index) {
        let cells: Vec<_> = before.iter().copied().map(at).collect();
        let master = master.index(cells.len());
        let awake = (0..cells.len())
            .find(|index| *index != master && ![Parked, Ended].contains(&before[*index]));
        let found = DomainSet::new(&cells).keeps_awake(&cells[master]);
        prop_assert_eq!(found.map(|found| index_of(&cells, found)), awake);
        prop_assert_eq!(states(&cells), before);
    }

    /// All fall asleep, or all stay as they were.
    #[test]
    fn all_sleep_or_none(before in sets()) {
        let cells: Vec<_> = before.iter().copied().map(at).collect();
        let awake = before.iter().position(|state| ![Parked, Ended].contains(state));
        let slept = DomainSet::new(&cells).fall_asleep();
        prop_assert_eq!(slept.err().map(|found| index_of(&cells, found)), awake);
        if awake.is_some() {
            prop_assert_eq!(states(&cells), before);
        } else {
            prop_assert!(!states(&cells).contains(&Parked));
            DomainSet::new(&cells).stay_parked();
            prop_assert_eq!(states(&cells), before);
        }
    }

    /// Each domain wakes once, in its order, and only after the one before.
    #[test]
    fn they_wake_in_their_order(before in quiet_sets()) {
        let cells: Vec<_> = before.iter().copied().map(at).collect();
        let set = DomainSet::new(&cells);
        set.fall_asleep().unwrap();
        let mut woken = Vec::new();
        let mut next = set.wake_next(0);
        while let Some(domain) = next {
            let waking = cells.iter().filter(|cell| cell.state() == Waking);
            prop_assert_eq!(waking.count(), 1);
            domain.run().unwrap();
            let index = index_of(&cells, domain);
            woken.push(index);
            next = set.wake_next(index + 1);
        }
        let asleep = (0..cells.len()).filter(|index| before[*index] == Parked);
        prop_assert_eq!(woken, asleep.collect::<Vec<_>>());
        prop_assert!(states(&cells).iter().all(|state| [Running, Ended].contains(state)));
    }

    /// The last domain that ends leaves none.
    #[test]
    fn the_end_of_the_last_domain_is_the_machines(count in 1_usize..=8, order: prop::sample::Index) {
        let cells: Vec<_> = (0..count).map(|_| at(Running)).collect();
        let set = DomainSet::new(&cells);
        let mut left: Vec<_> = cells.iter().collect();
        while !left.is_empty() {
            let domain = left.remove(order.index(left.len()));
            let remaining = match left.is_empty() {
                true => Remaining::None,
                false => Remaining::Others,
            };
            prop_assert_eq!(set.end(domain), Ok(remaining));
            prop_assert!(set.end(domain).is_err());
        }
    }
}
