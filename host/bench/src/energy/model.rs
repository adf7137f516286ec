//! The cost of a sleep as a function of its length: arithmetic on given powers and times.
//!
//! The *length* of a sleep is the time for which its mode keeps the machine's state: from the end
//! of entering to the wake event. A mode costs a fixed energy to enter and leave it, and its power
//! times the length.

use uom::si::f64::{Energy, Power, Time};

/// An interval in which the power is constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    /// Power of the whole machine, zero or more.
    pub power: Power,
    /// Duration, zero or more.
    pub time: Time,
}

impl Phase {
    #[must_use]
    pub fn energy(&self) -> Energy {
        self.power * self.time
    }
}

/// A way to spend the time until the next wake event.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Name in tables and plots.
    pub name: String,
    /// The phases from the request until the state is kept, in order.
    pub enter: Vec<Phase>,
    /// The power while the state is kept, zero or more.
    pub kept: Power,
    /// The phases from the wake event until the OS runs again, in order.
    pub leave: Vec<Phase>,
}

impl Mode {
    #[must_use]
    pub fn enter_energy(&self) -> Energy {
        energy(&self.enter)
    }

    #[must_use]
    pub fn leave_energy(&self) -> Energy {
        energy(&self.leave)
    }

    /// Energy to enter and leave the mode, which each sleep costs.
    #[must_use]
    pub fn fixed_energy(&self) -> Energy {
        self.enter_energy() + self.leave_energy()
    }

    #[must_use]
    pub fn enter_time(&self) -> Time {
        time(&self.enter)
    }

    /// Time to leave the mode: the wake latency.
    #[must_use]
    pub fn leave_time(&self) -> Time {
        time(&self.leave)
    }

    /// The energy of a sleep of this length, with entering and leaving.
    #[must_use]
    pub fn energy(&self, length: Time) -> Energy {
        self.fixed_energy() + self.kept * length
    }

    /// The mean power from the request until the OS runs again. For a sleep that takes no time it
    /// is the power of the mode.
    #[must_use]
    pub fn average_power(&self, length: Time) -> Power {
        let whole = self.enter_time() + length + self.leave_time();
        if whole > Time::default() {
            self.energy(length) / whole
        } else {
            self.kept
        }
    }

    /// The length at which the cheaper of this mode and `other` changes.
    #[must_use]
    pub fn break_even(&self, other: &Mode) -> BreakEven {
        let fixed = other.fixed_energy() - self.fixed_energy();
        let saved = self.kept - other.kept;
        let (no_energy, no_power) = (Energy::default(), Power::default());
        if fixed == no_energy && saved == no_power {
            BreakEven::Same
        } else if fixed >= no_energy && saved <= no_power {
            BreakEven::FirstAlways
        } else if fixed <= no_energy && saved >= no_power {
            BreakEven::SecondAlways
        } else {
            BreakEven::At(fixed / saved)
        }
    }
}

// These sums start at 0: an empty sum of floats would yield -0.

fn energy(phases: &[Phase]) -> Energy {
    let each = phases.iter().map(Phase::energy);
    each.fold(Energy::default(), |sum, energy| sum + energy)
}

fn time(phases: &[Phase]) -> Time {
    let each = phases.iter().map(|phase| phase.time);
    each.fold(Time::default(), |sum, time| sum + time)
}

/// The length at which two modes cost the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakEven {
    /// At this length. Shorter sleeps cost less in the mode that is cheaper to enter and leave.
    /// Longer sleeps cost less in the mode that is cheaper to keep.
    At(Time),
    /// Nowhere: the first mode costs less at all lengths above zero.
    FirstAlways,
    /// Nowhere: the second mode costs less at all lengths above zero.
    SecondAlways,
    /// Everywhere: both modes cost the same.
    Same,
}

impl BreakEven {
    /// The length; `None`: there is no break-even.
    #[must_use]
    pub fn length(self) -> Option<Time> {
        match self {
            BreakEven::At(length) => Some(length),
            BreakEven::FirstAlways | BreakEven::SecondAlways | BreakEven::Same => None,
        }
    }
}

/// `retain` for a while, then `persist`, without waking the OS in between.
///
/// The length of a sleep is not known at its start. This is the ski rental problem, with `retain`
/// as the rent and `persist` as the purchase. To wait for the break-even and then save costs at
/// most twice the energy of the better mode, at any length. No fixed delay has a better bound if
/// `retain` costs nothing to enter and `persist` costs nothing to keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Staged {
    pub retain: Mode,
    /// The mode of long sleeps. Its whole entering is counted, although the OS did its part before
    /// `retain`. So the energy is an upper limit.
    pub persist: Mode,
    /// How long `retain` lasts before `persist` is entered.
    pub delay: Time,
}

impl Staged {
    /// The staged mode with the delay of `auto`, the break-even. `None`: without a break-even,
    /// staging could only cost more.
    #[must_use]
    pub fn auto(retain: Mode, persist: Mode) -> Option<Self> {
        // `persist` must be cheaper to keep, so that it is the cheaper mode for long sleeps.
        if persist.kept >= retain.kept {
            return None;
        }
        let delay = retain.break_even(&persist).length()?;
        Some(Staged {
            retain,
            persist,
            delay,
        })
    }

    /// The energy of a sleep of this length. If the wake event comes at the delay, `persist` is not
    /// entered.
    #[must_use]
    pub fn energy(&self, length: Time) -> Energy {
        if length <= self.delay {
            return self.retain.energy(length);
        }
        let first = self.retain.enter_energy() + self.retain.kept * self.delay;
        first + self.persist.energy(length - self.delay)
    }

    /// The energy of the better of the two modes.
    #[must_use]
    pub fn better_energy(&self, length: Time) -> Energy {
        let [retain, persist] = [&self.retain, &self.persist].map(|mode| mode.energy(length));
        if retain < persist { retain } else { persist }
    }

    /// The highest ratio of its energy to the better mode's, over all lengths. It is reached just
    /// after the delay.
    #[must_use]
    pub fn worst_ratio(&self) -> f64 {
        let behind = self.retain.enter_energy()
            + self.retain.kept * self.delay
            + self.persist.fixed_energy();
        let better = self.better_energy(self.delay);
        if better > Energy::default() {
            (behind / better).value
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uom::si::energy::joule;
    use uom::si::power::watt;
    use uom::si::time::second;

    use super::*;

    fn watts(value: f64) -> Power {
        Power::new::<watt>(value)
    }

    fn seconds(value: f64) -> Time {
        Time::new::<second>(value)
    }

    fn mode(enter: (f64, f64), kept: f64, leave: (f64, f64)) -> Mode {
        let phase = |(power, time)| Phase {
            name: "phase".into(),
            power: watts(power),
            time: seconds(time),
        };
        Mode {
            name: "mode".into(),
            enter: vec![phase(enter)],
            kept: watts(kept),
            leave: vec![phase(leave)],
        }
    }

    #[test]
    fn a_sleep_costs_its_phases_and_its_length() {
        let mode = mode((100.0, 2.0), 0.5, (50.0, 4.0));
        assert_eq!(mode.fixed_energy().get::<joule>(), 400.0);
        assert_eq!(mode.energy(seconds(10.0)).get::<joule>(), 405.0);
        assert_eq!(mode.average_power(seconds(9.0)).get::<watt>(), 404.5 / 15.0);
        assert_eq!(mode.leave_time().get::<second>(), 4.0);
    }

    #[test]
    fn a_sleep_without_any_time_has_the_power_of_its_mode() {
        let none = mode((0.0, 0.0), 3.0, (0.0, 0.0));
        assert_eq!(none.average_power(seconds(0.0)), watts(3.0));
        let awake = Mode {
            enter: Vec::new(),
            leave: Vec::new(),
            ..none
        };
        assert!(awake.fixed_energy().get::<joule>().is_sign_positive());
    }

    #[test]
    fn who_is_cheaper_in_both_is_cheaper_always() {
        let [cheap, dear] = [
            mode((1.0, 1.0), 1.0, (1.0, 1.0)),
            mode((9.0, 1.0), 2.0, (1.0, 1.0)),
        ];
        assert_eq!(cheap.break_even(&dear), BreakEven::FirstAlways);
        assert_eq!(dear.break_even(&cheap), BreakEven::SecondAlways);
        assert_eq!(cheap.break_even(&cheap), BreakEven::Same);
        assert_eq!(cheap.break_even(&dear).length(), None);
        // If the modes are equal in one respect, the other decides.
        let slow = mode((2.0, 1.0), 1.0, (1.0, 1.0));
        assert_eq!(cheap.break_even(&slow), BreakEven::FirstAlways);
        let thirsty = mode((1.0, 1.0), 2.0, (1.0, 1.0));
        assert_eq!(thirsty.break_even(&cheap), BreakEven::SecondAlways);
    }

    #[test]
    fn staging_is_only_for_modes_that_break_even_the_right_way_round() {
        let [light, heavy] = [
            mode((1.0, 1.0), 2.0, (1.0, 1.0)),
            mode((9.0, 1.0), 0.0, (1.0, 1.0)),
        ];
        let staged = Staged::auto(light.clone(), heavy.clone()).unwrap();
        assert_eq!(staged.delay.get::<second>(), 4.0);
        assert_eq!(Staged::auto(heavy, light.clone()), None);
        assert_eq!(Staged::auto(light.clone(), light), None);
    }

    prop_compose! {
        fn any_mode()(
            enter in (0.0..300.0, 0.0..100.0),
            kept in 0.0..50.0,
            leave in (0.0..300.0, 0.0..100.0),
        ) -> Mode {
            mode(enter, kept, leave)
        }
    }

    /// Whether two energies are equal, up to the rounding of 64-bit floats.
    fn near(one: Energy, other: Energy) -> bool {
        let scale = one.get::<joule>().abs().max(other.get::<joule>().abs());
        (one - other).get::<joule>().abs() <= scale * 1e-9
    }

    proptest! {
        #[test]
        fn at_the_break_even_both_cost_the_same(a in any_mode(), b in any_mode()) {
            let length = a.break_even(&b);
            prop_assert_eq!(length.length(), b.break_even(&a).length());
            if let BreakEven::At(length) = length {
                prop_assert!(length > Time::default());
                prop_assert!(near(a.energy(length), b.energy(length)));
                // The cheaper mode differs on the two sides of the break-even.
                let cheaper = |length| a.energy(length) < b.energy(length);
                prop_assert_ne!(cheaper(length * 0.9), cheaper(length * 1.1));
            }
        }

        #[test]
        fn without_a_break_even_the_same_one_is_cheaper_at_every_length(
            a in any_mode(), b in any_mode(), length in 0.0..1e6,
        ) {
            let [one, other] = [&a, &b].map(|mode| mode.energy(seconds(length)));
            match a.break_even(&b) {
                BreakEven::FirstAlways => prop_assert!(one <= other),
                BreakEven::SecondAlways => prop_assert!(other <= one),
                BreakEven::At(_) | BreakEven::Same => {}
            }
        }

        #[test]
        fn energy_grows_with_length(a in any_mode(), b in any_mode(), length in 0.0..1e5, more in 0.0..1e5) {
            let lengths = [length, length + more].map(seconds);
            let [short, long] = lengths.map(|length| a.energy(length));
            prop_assert!(short <= long);
            prop_assert!(a.average_power(lengths[1]) >= Power::default());
            if let Some(staged) = Staged::auto(a, b) {
                // At the delay the mode changes, and the energy to leave `retain` is saved.
                let saved = staged.retain.leave_energy();
                let [short, long] = lengths.map(|length| staged.energy(length));
                prop_assert!(short <= long + saved);
            }
        }

        #[test]
        fn staging_costs_at_most_twice_the_better_mode(
            a in any_mode(), b in any_mode(), part in 0.0..3.0,
        ) {
            let Some(staged) = Staged::auto(a, b) else { return Ok(()) };
            let bound = 2.0 + 1e-9;
            prop_assert!(staged.worst_ratio() <= bound);
            let lengths: [Time; 3] = [staged.delay * part, staged.delay, staged.delay * (1.0 + 1e-12)];
            for length in lengths {
                let (cost, better) = (staged.energy(length), staged.better_energy(length));
                prop_assert!(cost <= better * staged.worst_ratio().max(1.0) * bound / 2.0);
            }
            // Up to the delay the staged mode costs the same as `retain`.
            let before = staged.delay * f64::min(part, 1.0);
            prop_assert!(near(staged.energy(before), staged.retain.energy(before)));
        }
    }
}
