//! The modelled energy of the measured sleeps, on machines whose power in each phase is published.

use uom::si::energy::kilojoule;
use uom::si::f64::Time;
use uom::si::power::watt;
use uom::si::time::{minute, second};

use super::figures::Figure;
use super::tables::Grid;
use crate::energy::account::{MeasuredMode, digits, duration, measured_modes, otherwise};
use crate::energy::builtin::{self, BUILT_IN};
use crate::energy::model::{Mode, Staged};
use crate::energy::profile::{Kind, Profile};
use crate::energy::times::Given;
use crate::plot::{self, Curve};
use crate::results::Results;

/// Length of the sleeps in plots of power over time, as in the thesis.
const SHOWN_SECONDS: f64 = 5.0;

/// The modes of one profile.
struct Machine {
    name: &'static str,
    profile: Profile,
    /// The mode with powered RAM.
    retain: Mode,
    /// The persist mode with the published times, if the profile has all of them.
    published: Option<Mode>,
    /// The persist mode with the smallest and the largest measured image, each with and without
    /// avoidable parts.
    measured: Vec<MeasuredMode>,
}

/// The section's introduction.
pub(super) const TEXT: &str = "No power was measured: a profile gives the power of each phase on a real machine, \
     from published tables. If it has a device, the times of images are the measured bytes at that device's bandwidths; otherwise phases take their times under emulation. The command `poorwill energy` shows all figures and their sources.";

/// The profiles to which measured sleeps apply.
pub(super) struct Machines(Vec<Machine>);

impl Machines {
    pub(super) fn of(results: &Results) -> anyhow::Result<Self> {
        let mut machines = Vec::new();
        for (name, _) in BUILT_IN {
            let profile = builtin::profile(name)?;
            machines.extend(Machine::of(name, profile, results));
        }
        Ok(Machines(machines))
    }

    pub(super) fn figures(&self) -> anyhow::Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for machine in &self.0 {
            figures.push(machine.power_over_time()?);
            figures.push(machine.energy_over_length()?);
        }
        Ok(figures)
    }

    pub(super) fn grid(&self) -> Option<Grid> {
        let rows: Vec<_> = self.0.iter().flat_map(Machine::rows).collect();
        let heads = [
            "profile",
            "in use",
            "image, MB",
            "s to enter",
            "wake, s",
            "J each sleep",
            "break-even with RAM powered",
        ];
        (!rows.is_empty()).then(|| Grid {
            title: "Energy, modelled: the smallest and the largest measured image",
            heads: heads.map(str::to_owned).into(),
            rows,
        })
    }
}

impl Machine {
    fn of(name: &'static str, profile: Profile, results: &Results) -> Option<Self> {
        profile.mode_of(Kind::Retain)?;
        let retain = otherwise(&profile)?;
        let all = measured_modes(&profile, results);
        let by_bytes = |a: &&MeasuredMode, b: &&MeasuredMode| {
            a.sleep.saved_bytes.total_cmp(&b.sleep.saved_bytes)
        };
        let least = all.iter().min_by(by_bytes)?.sleep.name.clone();
        let greatest = all.iter().max_by(by_bytes)?.sleep.name.clone();
        let is_end = |one: &&MeasuredMode| [&least, &greatest].contains(&&one.sleep.name);
        let published = profile
            .mode_of(Kind::Persist)
            .and_then(|mode| mode.with(&Given));
        Some(Machine {
            name,
            measured: all.iter().filter(is_end).cloned().collect(),
            profile,
            retain,
            published,
        })
    }

    /// The sleep with the largest image, with avoidable parts.
    fn greatest(&self) -> Option<&MeasuredMode> {
        let as_it_is = self.measured.iter().filter(|one| !one.without_avoidable);
        as_it_is.max_by(|a, b| a.sleep.saved_bytes.total_cmp(&b.sleep.saved_bytes))
    }

    /// The modes with names and colours: retain and persist as published, persist as measured, and
    /// the largest image again without avoidable parts.
    fn modes(&self) -> Vec<(String, usize, &Mode)> {
        let mut modes = vec![(
            format!("{}, as published", self.retain.name),
            1,
            &self.retain,
        )];
        if let Some(published) = &self.published {
            modes.push((format!("{}, as published", published.name), 2, published));
        }
        let greatest = self.greatest().map(|one| &one.sleep.name);
        let shown = self
            .measured
            .iter()
            .filter(|one| !one.without_avoidable || Some(&one.sleep.name) == greatest);
        for (one, colour) in shown.zip([0, 3, 4]) {
            modes.push((label(one), colour, &one.mode));
        }
        modes
    }

    fn power_over_time(&self) -> anyhow::Result<Figure> {
        let mut modes = self.modes();
        // Of the measured images only the largest is drawn.
        let greatest = self.greatest().map(label);
        modes
            .retain(|(name, colour, _)| matches!(colour, 1 | 2) || Some(name) == greatest.as_ref());
        let curves: Vec<Curve> = modes
            .into_iter()
            .map(|(name, colour, mode)| steps(name, colour, mode))
            .collect();
        let phases = self
            .greatest()
            .map(|one| phases(&one.mode))
            .unwrap_or_default();
        Ok(Figure {
            title: format!("Power over time, modelled: {}", self.name),
            text: format!(
                "{}. Time begins at the request. Rings separate phases, and the sleep itself is shortened to \
                 {SHOWN_SECONDS} s. The phases with the largest measured image: {phases}.",
                self.profile.title
            ),
            svg: plot::curves(&curves, "seconds", "watts")?,
            legend: plot::legend_of(curves.iter().map(Curve::entry)),
        })
    }

    fn energy_over_length(&self) -> anyhow::Result<Figure> {
        let modes = self.modes();
        let break_evens: Vec<(String, Time)> = modes
            .iter()
            .filter_map(|(name, _, mode)| {
                Some((name.clone(), self.retain.break_even(mode).length()?))
            })
            .collect();
        let longest = break_evens.iter().map(|(_, length)| *length);
        let end = longest.fold(Time::new::<second>(1.0), Time::max) * 1.25;
        let unit = if end < Time::new::<minute>(5.0) {
            Unit::Seconds
        } else {
            Unit::Minutes
        };
        let lines = modes.iter().map(|(name, colour, mode)| Curve {
            name: name.clone(),
            colour: *colour,
            points: [Time::default(), end]
                .map(|at| unit.point(at, mode.energy(at)))
                .into(),
            marks: match self.retain.break_even(mode).length() {
                Some(at) => vec![unit.point(at, mode.energy(at))],
                None => Vec::new(),
            },
        });
        let mut curves: Vec<Curve> = lines.collect();
        let greatest = self.greatest().map(|one| one.mode.clone());
        let staged = greatest.and_then(|mode| Staged::auto(self.retain.clone(), mode));
        curves.extend(staged.map(|staged| staged_curve(&staged, end, unit)));
        let words: Vec<String> = break_evens
            .iter()
            .map(|(name, length)| format!("{name}: {}", duration(length.get::<second>())))
            .collect();
        let words = if words.is_empty() {
            "none".to_owned()
        } else {
            words.join("; ")
        };
        Ok(Figure {
            title: format!("Energy over the length of a sleep, modelled: {}", self.name),
            text: format!(
                "{}. Rings mark break-evens with {}: {words}. The staged mode keeps RAM powered up to the \
                 break-even, and then saves the largest image.",
                self.profile.title, self.retain.name
            ),
            svg: plot::curves(&curves, unit.name(), "kilojoules")?,
            legend: plot::legend_of(curves.iter().map(Curve::entry)),
        })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |one: &MeasuredMode| {
            let break_even = self.retain.break_even(&one.mode).length();
            vec![
                self.name.to_owned(),
                format!("{}{}", one.sleep.name, without(one)),
                format!("{:.0}", one.sleep.saved_bytes / 1e6),
                digits(one.mode.enter_time().get::<second>()),
                digits(one.mode.leave_time().get::<second>()),
                digits(one.mode.fixed_energy().get::<uom::si::energy::joule>()),
                break_even.map_or("none".into(), |length| duration(length.get::<second>())),
            ]
        };
        self.measured.iter().map(row).collect()
    }
}

/// Units of the axis of sleep lengths.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Minutes,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds asleep",
            Unit::Minutes => "minutes asleep",
        }
    }

    fn point(self, at: Time, energy: uom::si::f64::Energy) -> (f64, f64) {
        let at = match self {
            Unit::Seconds => at.get::<second>(),
            Unit::Minutes => at.get::<minute>(),
        };
        (at, energy.get::<kilojoule>())
    }
}

fn without(one: &MeasuredMode) -> &'static str {
    if one.without_avoidable {
        ", without avoidable parts"
    } else {
        ""
    }
}

fn label(one: &MeasuredMode) -> String {
    format!("Poorwill, {}{}", one.sleep.name, without(one))
}

/// The phases of a mode as text: `saving 0.2 s at 176 W, …`
fn phases(mode: &Mode) -> String {
    let phases = mode.enter.iter().chain(&mode.leave);
    let words: Vec<String> = phases
        .map(|phase| {
            let time = duration(phase.time.get::<second>());
            format!(
                "{} {time} at {} W",
                phase.name,
                digits(phase.power.get::<watt>())
            )
        })
        .collect();
    words.join(", ")
}

/// The curve of a mode's power: a step for each phase, and one for the sleep between them.
fn steps(name: String, colour: usize, mode: &Mode) -> Curve {
    let kept = (Time::new::<second>(SHOWN_SECONDS), mode.kept);
    let entering = mode.enter.iter().map(|phase| (phase.time, phase.power));
    let leaving = mode.leave.iter().map(|phase| (phase.time, phase.power));
    let (mut points, mut marks, mut at) = (Vec::new(), Vec::new(), 0.0);
    for (time, power) in entering.chain([kept]).chain(leaving) {
        let watts = power.get::<watt>();
        points.push((at, watts));
        at += time.get::<second>();
        points.push((at, watts));
        marks.push((at, watts));
    }
    Curve {
        name,
        colour,
        points,
        marks,
    }
}

fn staged_curve(staged: &Staged, end: Time, unit: Unit) -> Curve {
    let behind = staged.delay * (1.0 + 1e-9);
    let at = [Time::default(), staged.delay, behind, end];
    Curve {
        name: "staged".into(),
        colour: 5,
        points: at.map(|at| unit.point(at, staged.energy(at))).into(),
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_profile_with_powered_ram_and_a_measurable_image_has_its_plots() {
        let machines = Machines::of(&sample()).unwrap();
        let names: Vec<&str> = machines.0.iter().map(|machine| machine.name).collect();
        let thesis = ["thesis-1gib", "thesis-4gib", "thesis-8gib", "thesis-16gib"];
        assert_eq!(names[..4], thesis);
        assert_eq!(names[4..], ["jumpstart-dx1100"]);
        let figures = machines.figures().unwrap();
        assert_eq!(figures.len(), 10);
        for figure in &figures {
            assert!(figure.title.contains("modelled"), "{}", figure.title);
            assert!(
                figure.legend.len() >= 2 && !figure.text.contains("NaN"),
                "{}",
                figure.text
            );
        }
    }

    #[test]
    fn break_evens_are_marked_where_the_lines_cross() {
        let machines = Machines::of(&sample()).unwrap();
        let figure = machines.0[2].energy_over_length().unwrap();
        // Marks: as published, the smallest image, and the largest with and without the memory
        // training.
        let rings = figure.svg.matches("<circle").count();
        assert_eq!(rings, 4, "{}", figure.svg);
        assert!(
            figure.text.contains("PMem, as published: 56.1 min"),
            "{}",
            figure.text
        );
        assert_eq!(figure.legend.last().unwrap().0, "staged");
        let power = machines.0[2].power_over_time().unwrap();
        assert!(
            power
                .text
                .contains("memory training of the FPGA 9.06 s at 117 W"),
            "{}",
            power.text
        );
    }

    #[test]
    fn without_measured_sleeps_there_is_nothing() {
        let mut results = sample();
        results.compare = None;
        let machines = Machines::of(&results).unwrap();
        assert!(machines.figures().unwrap().is_empty() && machines.grid().is_none());
    }
}
