//! Converts a profile's phases to those of the model.

use uom::si::f64::{Power, Time};

use super::{Fault, Figure, ModeProfile, PhaseProfile};
use crate::energy::model::{Mode, Phase};
use crate::energy::times::Times;

impl ModeProfile {
    /// The mode with times from `times`. `None`: neither `times` nor the profile has the time of
    /// some phase.
    #[must_use]
    pub fn with(&self, times: &dyn Times) -> Option<Mode> {
        let phases = |phases: &[PhaseProfile]| -> Option<Vec<Phase>> {
            let each: Option<Vec<_>> = phases.iter().map(|phase| phase.with(times)).collect();
            each.map(|each| each.into_iter().flatten().collect())
        };
        Some(Mode {
            name: self.name.clone(),
            enter: phases(&self.enter)?,
            kept: self.kept_watts.watts(),
            leave: phases(&self.leave)?,
        })
    }

    /// All phases, with their places in the profile.
    pub(super) fn phases(&self) -> impl Iterator<Item = (String, &PhaseProfile)> {
        let ways = [("enter", &self.enter), ("leave", &self.leave)];
        ways.into_iter().flat_map(move |(way, phases)| {
            let place = move |phase: &PhaseProfile| format!("{}: {way}: {}", self.name, phase.name);
            phases.iter().map(move |phase| (place(phase), phase))
        })
    }

    /// Whether a measurement can replace a time of the mode.
    #[must_use]
    pub fn is_measurable(&self) -> bool {
        let measurable = |phase: &PhaseProfile| {
            phase.measured.is_some() || phase.parts.iter().any(|part| part.measured.is_some())
        };
        self.enter.iter().chain(&self.leave).any(measurable)
    }

    /// Whether some part of the mode is avoidable.
    #[must_use]
    pub fn has_avoidable(&self) -> bool {
        let mut phases = self.enter.iter().chain(&self.leave);
        phases.any(|phase| phase.parts.iter().any(|part| part.avoidable))
    }
}

impl PhaseProfile {
    pub(super) fn figures<'p>(&'p self, place: &str, figures: &mut Vec<(String, &'p Figure)>) {
        let own = [
            ("watts", &self.watts),
            ("seconds", &self.seconds),
            ("joules", &self.joules),
        ];
        for (unit, figure) in own {
            if let Some(figure) = figure {
                figures.push((format!("{place}: {unit}"), figure));
            }
        }
        for part in &self.parts {
            if let Some(figure) = &part.seconds {
                figures.push((format!("{place}: {}: seconds", part.name), figure));
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        match (&self.watts, &self.seconds, &self.joules) {
            (Some(_), Some(_), None) => {}
            (Some(_), None, None) if self.measured.is_some() && self.parts.is_empty() => {}
            (None, Some(divisor), Some(_)) | (Some(divisor), None, Some(_)) => {
                if divisor.value <= 0.0 {
                    return Err(Fault::Zero);
                }
            }
            _ => return Err(Fault::Undetermined),
        }
        if self.parts.is_empty() {
            return Ok(());
        }
        let rests = self.parts.iter().filter(|part| part.seconds.is_none());
        if rests.count() != 1 || self.measured.is_some() {
            return Err(Fault::NoRest);
        }
        match self.rest() {
            Some(rest) if rest >= Time::default() => Ok(()),
            Some(_) => Err(Fault::PartsTooLong),
            None => Err(Fault::NoRest),
        }
    }

    fn power(&self) -> Option<Power> {
        match (&self.watts, &self.joules, &self.seconds) {
            (Some(watts), _, _) => Some(watts.watts()),
            (None, Some(joules), Some(seconds)) => Some(joules.joules() / seconds.seconds()),
            _ => None,
        }
    }

    fn time(&self) -> Option<Time> {
        match (&self.seconds, &self.joules, &self.watts) {
            (Some(seconds), _, _) => Some(seconds.seconds()),
            (None, Some(joules), Some(watts)) => Some(joules.joules() / watts.watts()),
            _ => None,
        }
    }

    /// The part of the phase's time that is left for the part without a time.
    fn rest(&self) -> Option<Time> {
        let known = self.parts.iter().filter_map(|part| part.seconds.as_ref());
        Some(self.time()? - known.map(Figure::seconds).sum::<Time>())
    }

    fn with(&self, times: &dyn Times) -> Option<Vec<Phase>> {
        let power = self.power()?;
        let phase = |name: &str, time| Phase {
            name: name.to_owned(),
            power,
            time,
        };
        if self.parts.is_empty() {
            let measured = self.measured.and_then(|part| times.of(part));
            return Some(vec![phase(&self.name, measured.or_else(|| self.time())?)]);
        }
        let rest = self.rest()?;
        let kept = self
            .parts
            .iter()
            .filter(|part| !(part.avoidable && times.without_avoidable()));
        let phases = kept.map(|part| {
            let measured = part.measured.and_then(|part| times.of(part));
            let given = part.seconds.as_ref().map_or(rest, Figure::seconds);
            phase(&part.name, measured.unwrap_or(given))
        });
        Some(phases.collect())
    }
}
