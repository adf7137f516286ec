//! The turns of several virtual harts on one core.

use poorwill_hart::NEVER;
use poorwill_hart::interrupt::STI;

use crate::hart::{Activity, VirtualHart};

/// Chooses the hart whose turn follows that of `last`: the next one that runs, or whose wait an
/// interrupt ends. It then runs. `None`: all wait, or are stopped. `is_interrupted` tells of a
/// waiting hart and its place.
pub fn next_turn(
    harts: &mut [VirtualHart],
    last: usize,
    is_interrupted: impl Fn(usize, &VirtualHart) -> bool,
) -> Option<usize> {
    let count = harts.len();
    let mut places = (1..=count).map(|step| (last + step) % count);
    let place = places.find(|place| match harts[*place].activity {
        Activity::Stopped => false,
        Activity::Runs => true,
        Activity::Waits => is_interrupted(*place, &harts[*place]),
    })?;
    harts[place].activity = Activity::Runs;
    Some(place)
}

/// The first deadline that ends a wait; [`NEVER`] without one.
#[must_use]
pub fn first_deadline(harts: &[VirtualHart]) -> u64 {
    let waits = |hart: &&VirtualHart| hart.activity == Activity::Waits && hart.csrs.sie & STI != 0;
    let deadlines = harts.iter().filter(waits).map(|hart| hart.csrs.deadline);
    deadlines.min().unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harts(activities: &[Activity]) -> Vec<VirtualHart> {
        let hart = |activity: &Activity| VirtualHart {
            activity: *activity,
            ..VirtualHart::new()
        };
        activities.iter().map(hart).collect()
    }

    #[test]
    fn each_hart_that_runs_gets_its_turn() {
        let mut harts = harts(&[Activity::Runs, Activity::Stopped, Activity::Runs]);
        let mut turns = [0; 3];
        let mut last = 0;
        for _ in 0..10 {
            last = next_turn(&mut harts, last, |_, _| false).unwrap();
            turns[last] += 1;
        }
        assert_eq!(turns, [5, 0, 5]);
    }

    #[test]
    fn an_interrupt_ends_the_wait_of_its_hart_alone() {
        let mut harts = harts(&[Activity::Waits, Activity::Waits, Activity::Stopped]);
        assert_eq!(next_turn(&mut harts, 0, |_, _| false), None);
        assert_eq!(next_turn(&mut harts, 0, |place, _| place != 0), Some(1));
        assert_eq!(harts[0].activity, Activity::Waits);
        assert_eq!(harts[1].activity, Activity::Runs);
        assert_eq!(next_turn(&mut harts, 1, |_, _| false), Some(1));
        assert_eq!(next_turn(&mut [], 0, |_, _| true), None);
    }

    #[test]
    fn the_core_waits_for_the_first_deadline_that_a_hart_waits_for() {
        let mut harts = harts(&[
            Activity::Waits,
            Activity::Waits,
            Activity::Waits,
            Activity::Runs,
        ]);
        assert_eq!(first_deadline(&harts), NEVER);
        for (hart, deadline) in harts.iter_mut().zip([50, 40, 10, 5]) {
            hart.csrs.deadline = deadline;
            hart.csrs.sie = STI;
        }
        harts[2].csrs.sie = 0;
        assert_eq!(first_deadline(&harts), 40);
    }
}
