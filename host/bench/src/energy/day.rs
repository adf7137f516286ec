//! The energy of a day with many wakes, whose suspends and resumes run on the strong cores or on a
//! weak one. The formulas are those of the slides on decelerated suspend and resume (slide 24).
//!
//! Of a suspend and resume on the strong core, `e` seconds execute, `s` spin and `i` are idle. It costs
//! `(e + s) * busy + i * idle`. The weak core executes `X` instructions for each one of the OS, and is
//! `F` times slower: it costs `(X * F * e + s) * busy' + i * idle'`. The tasks cost the same.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::profile::Figure;
use crate::plot::{self, Curve};

const SECONDS: f64 = 86_400.0;

/// A day, from a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Day {
    /// A line about the machine.
    pub title: String,
    /// Notes that help to judge the figures.
    pub about: String,
    /// The publication that the sources refer to.
    pub publication: String,
    pub strong: Strong,
    pub weak: Weak,
    pub halves: Halves,
    pub wakes: Vec<Wakes>,
}

/// The strong core.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strong {
    pub busy_watts: Figure,
    pub idle_watts: Figure,
}

/// The weak core.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weak {
    pub busy_watts: Figure,
    pub idle_watts: Figure,
    /// Instructions of the strong core in the time of one of the weak core (`F`).
    pub slower: Figure,
}

/// The suspend and the resume of a wake, on the strong core.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halves {
    pub seconds: Figure,
    /// The share of the time in which the core executes the OS's work.
    pub executing: Figure,
    /// The share in which it waits without a pause.
    pub spinning: Figure,
}

/// Wakes of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wakes {
    pub name: String,
    /// Their number in a day.
    pub count: Figure,
    /// Length of the task after each.
    pub seconds: Figure,
    /// The share of a wake's energy that its suspend and resume take on the strong core.
    pub share: Option<Figure>,
    /// Power during the task, in place of the share.
    pub task_watts: Option<Figure>,
}

/// Why a day is refused.
#[derive(Debug, Error)]
pub enum DayError {
    #[error("cannot read the day {file}: {reason}")]
    Read { file: String, reason: io::Error },
    #[error("{file} is not a valid day: {reason}")]
    Malformed {
        file: String,
        reason: toml::de::Error,
    },
    #[error("{file}: {place}: {fault}")]
    Wrong {
        file: String,
        place: String,
        fault: DayFault,
    },
}

/// A fault of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DayFault {
    #[error("must be a finite number, zero or more")]
    NotANumber,
    #[error("must be more than zero")]
    Zero,
    #[error("its source is empty: name a slide, or write `assumed` and why")]
    NoSource,
    #[error("must be at most 1, as a share")]
    NoShare,
    #[error("must be less than 1: the task takes energy, too")]
    NoTask,
    #[error("`executing` and `spinning` are more than 1 together")]
    TooMuch,
    #[error("give one of `share` and `task_watts`")]
    OneOf,
    #[error("the wakes take longer than a day")]
    TooLong,
    #[error("there are no wakes: add some")]
    NoWakes,
}

/// A day's energy, with the weak core at one ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Energy {
    /// Instructions of the weak core for each one of the OS (`X`).
    pub ratio: f64,
    /// Of all suspends and resumes.
    pub halves_joules: f64,
    /// Of the whole day.
    pub joules: f64,
    /// Of the day's energy with the strong cores alone; below zero: the weak core costs more.
    pub saved: f64,
    /// The same of suspends and resumes.
    pub halves_saved: f64,
    /// Seconds of a suspend and resume.
    pub halves_seconds: f64,
}

impl Day {
    /// Reads a day.
    ///
    /// # Errors
    ///
    /// [`DayError`].
    pub fn read(file: &Path) -> Result<Self, DayError> {
        let name = file.display().to_string();
        match fs::read_to_string(file) {
            Ok(text) => Self::parse(&text, &name),
            Err(reason) => Err(DayError::Read { file: name, reason }),
        }
    }

    /// Parses `text`. Errors call its file `file`.
    ///
    /// # Errors
    ///
    /// [`DayError`].
    pub fn parse(text: &str, file: &str) -> Result<Self, DayError> {
        let file = file.to_owned();
        let day: Day = match toml::from_str(text) {
            Ok(day) => day,
            Err(reason) => return Err(DayError::Malformed { file, reason }),
        };
        match day.check() {
            Ok(()) => Ok(day),
            Err((place, fault)) => Err(DayError::Wrong { file, place, fault }),
        }
    }

    /// All figures, with their places in the file.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let fixed = [
            ("strong.busy_watts", &self.strong.busy_watts),
            ("strong.idle_watts", &self.strong.idle_watts),
            ("weak.busy_watts", &self.weak.busy_watts),
            ("weak.idle_watts", &self.weak.idle_watts),
            ("weak.slower", &self.weak.slower),
            ("halves.seconds", &self.halves.seconds),
            ("halves.executing", &self.halves.executing),
            ("halves.spinning", &self.halves.spinning),
        ];
        let fixed = fixed
            .into_iter()
            .map(|(place, figure)| (place.to_owned(), figure));
        let of_wakes = self.wakes.iter().flat_map(|wakes| {
            let all = [
                ("count", Some(&wakes.count)),
                ("seconds", Some(&wakes.seconds)),
                ("share", wakes.share.as_ref()),
                ("task_watts", wakes.task_watts.as_ref()),
            ];
            let given = all
                .into_iter()
                .filter_map(|(key, figure)| Some((key, figure?)));
            given.map(|(key, figure)| (format!("{}: {key}", wakes.name), figure))
        });
        fixed.chain(of_wakes).collect()
    }

    fn check(&self) -> Result<(), (String, DayFault)> {
        for (place, figure) in self.figures() {
            let fault = match figure {
                figure if !figure.value.is_finite() || figure.value < 0.0 => DayFault::NotANumber,
                figure if figure.source.trim().is_empty() => DayFault::NoSource,
                _ => continue,
            };
            return Err((place, fault));
        }
        let positive = [
            ("weak.busy_watts", &self.weak.busy_watts),
            ("weak.slower", &self.weak.slower),
            ("halves.seconds", &self.halves.seconds),
            ("halves.executing", &self.halves.executing),
        ];
        if let Some((place, _)) = positive.iter().find(|(_, figure)| figure.value <= 0.0) {
            return Err(((*place).to_owned(), DayFault::Zero));
        }
        if self.halves.executing.value + self.halves.spinning.value > 1.0 {
            return Err(("halves".into(), DayFault::TooMuch));
        }
        if self.wakes.is_empty() {
            return Err(("wakes".into(), DayFault::NoWakes));
        }
        for wakes in &self.wakes {
            wakes.check().map_err(|fault| (wakes.name.clone(), fault))?;
        }
        let awake: f64 = self
            .wakes
            .iter()
            .map(|wakes| wakes.count.value * (wakes.seconds.value + self.halves.seconds.value))
            .sum();
        match awake > SECONDS {
            true => Err(("wakes".into(), DayFault::TooLong)),
            false => Ok(()),
        }
    }

    /// Wakes of a day.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.wakes.iter().map(|wakes| wakes.count.value).sum()
    }

    /// Seconds of a suspend and resume on the strong core: executing, spinning and idle.
    fn seconds(&self) -> [f64; 3] {
        let whole = self.halves.seconds.value;
        let executing = whole * self.halves.executing.value;
        let spinning = whole * self.halves.spinning.value;
        [executing, spinning, whole - executing - spinning]
    }

    /// Joules of a suspend and resume on the strong core.
    fn strong_joules(&self) -> f64 {
        let [executing, spinning, idle] = self.seconds();
        (executing + spinning) * self.strong.busy_watts.value + idle * self.strong.idle_watts.value
    }

    /// Joules of a day's suspends and resumes on the strong core, and of all of it.
    #[must_use]
    pub fn with_strong(&self) -> [f64; 2] {
        let halves = self.count() * self.strong_joules();
        [halves, halves + self.task_joules()]
    }

    /// Joules of a day's tasks.
    #[must_use]
    pub fn task_joules(&self) -> f64 {
        let halves = self.strong_joules();
        let task = |wakes: &Wakes| match (&wakes.share, &wakes.task_watts) {
            (Some(share), _) => halves * (1.0 - share.value) / share.value,
            (None, Some(watts)) => wakes.seconds.value * watts.value,
            (None, None) => 0.0,
        };
        self.wakes
            .iter()
            .map(|wakes| wakes.count.value * task(wakes))
            .sum()
    }

    /// The day's energy with the weak core, at a ratio.
    #[must_use]
    pub fn with_weak(&self, ratio: f64) -> Energy {
        let [executing, spinning, idle] = self.seconds();
        let executing = ratio * self.weak.slower.value * executing;
        let busy = (executing + spinning) * self.weak.busy_watts.value;
        let halves = self.count() * (busy + idle * self.weak.idle_watts.value);
        let joules = halves + self.task_joules();
        let [strong_halves, strong] = self.with_strong();
        Energy {
            ratio,
            halves_joules: halves,
            joules,
            saved: 1.0 - joules / strong,
            halves_saved: 1.0 - halves / strong_halves,
            halves_seconds: executing + spinning + idle,
        }
    }

    /// The ratio from which on the weak core saves nothing. Zero or less: it never does.
    #[must_use]
    pub fn break_even(&self) -> f64 {
        let [executing, spinning, idle] = self.seconds();
        let waits = spinning * self.weak.busy_watts.value + idle * self.weak.idle_watts.value;
        let of_one = self.weak.slower.value * executing * self.weak.busy_watts.value;
        (self.strong_joules() - waits) / of_one
    }

    /// The day's energy over the ratio, as SVG. `ratio`: the measured one, which is marked.
    ///
    /// # Errors
    ///
    /// The plot cannot be drawn.
    pub fn plot(&self, ratio: Option<f64>) -> anyhow::Result<String> {
        let [_, strong] = self.with_strong();
        let even = self.break_even().max(1.0);
        let right = ratio.unwrap_or_default().max(even) * 1.3;
        let at = |ratio: f64| (ratio, self.with_weak(ratio).joules);
        let marks = [ratio, Some(even)].into_iter().flatten().map(at);
        let curves = [
            Curve {
                name: "strong cores".into(),
                colour: 1,
                points: vec![(0.0, strong), (right, strong)],
                marks: Vec::new(),
            },
            Curve {
                name: "weak core".into(),
                colour: 0,
                points: vec![at(0.0), at(right)],
                marks: marks.collect(),
            },
        ];
        let x = "weak core's instructions for each of the OS";
        plot::curves_with_legend(&curves, x, "J a day")
    }
}

impl Wakes {
    fn check(&self) -> Result<(), DayFault> {
        if self.count.value <= 0.0 {
            return Err(DayFault::Zero);
        }
        match (&self.share, &self.task_watts) {
            (Some(_), Some(_)) | (None, None) => Err(DayFault::OneOf),
            (Some(share), None) if share.value > 1.0 => Err(DayFault::NoShare),
            (Some(share), None) if share.value >= 1.0 => Err(DayFault::NoTask),
            (Some(share), None) if share.value <= 0.0 => Err(DayFault::Zero),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMARTWATCH: &str = include_str!("smartwatch.toml");

    fn is(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9, "{value}, {wanted}");
    }

    /// A day of round figures: 10 s of each kind of time.
    fn round() -> Day {
        let text = SMARTWATCH
            .replace("value = 0.754", "value = 30")
            .replace("value = 0.5,", "value = 0.3333333333333333,")
            .replace("value = 0.25,", "value = 0.3333333333333333,")
            .replace("value = 0.672", "value = 10")
            .replace("value = 0.030", "value = 1")
            .replace("value = 0.0211", "value = 2")
            .replace("value = 0.0038", "value = 0.5")
            .replace("value = 6,", "value = 3,")
            .replace("value = 0.43", "value = 0.5")
            .replace("value = 72", "value = 10");
        Day::parse(&text, "round").unwrap()
    }

    #[test]
    fn energy_is_that_of_the_slides_formulas() {
        let day = round();
        // A suspend and resume: 20 s at 10 W, and 10 s at 1 W. The task costs as much.
        let [halves, whole] = day.with_strong();
        is(halves / 10.0, 210.0);
        is(whole / 10.0, 420.0);
        // 2 * 3 * 10 s and 10 s at 2 W, and 10 s at 0.5 W.
        let weak = day.with_weak(2.0);
        is(weak.halves_joules / 10.0, 145.0);
        is(weak.joules / 10.0, 355.0);
        is(weak.saved, 65.0 / 420.0);
        is(weak.halves_saved, 65.0 / 210.0);
        is(weak.halves_seconds, 80.0);
        // 210 = X * 60 + 20 + 5.
        is(day.break_even(), 185.0 / 60.0);
        is(day.with_weak(day.break_even()).saved, 0.0);
        assert!(day.with_weak(4.0).saved < 0.0);
    }

    #[test]
    fn the_example_is_valid_and_is_drawn() {
        let day = Day::parse(SMARTWATCH, "smartwatch").unwrap();
        is(day.count(), 72.0);
        for ratio in [None, Some(2.2), Some(40.0)] {
            let svg = day.plot(ratio).unwrap();
            let marks = svg.matches("<circle").count();
            assert_eq!(marks, 1 + usize::from(ratio.is_some()), "{svg}");
        }
    }

    #[test]
    fn a_task_has_a_share_or_a_power() {
        let share = "share = { value = 0.43, source = \"slide 4: sensing\" }";
        let with = |text: &str| Day::parse(&SMARTWATCH.replace(share, text), "f");
        let day = with("task_watts = { value = 2, source = \"given\" }").unwrap();
        is(day.task_joules(), 72.0 * 20.0);
        assert!(with("").unwrap_err().to_string().contains("give one of"));
    }

    #[test]
    fn a_wrong_day_is_refused_by_its_place() {
        let cases = [
            (
                "value = 72",
                "value = 0",
                "tasks of 10 s: must be more than zero",
            ),
            ("value = 72", "value = 9000", "longer than a day"),
            (
                "value = 0.25,",
                "value = 0.6,",
                "halves: `executing` and `spinning`",
            ),
            ("value = 0.43", "value = 1.43", "at most 1"),
            ("value = 0.43", "value = 1", "less than 1"),
            (
                "value = 0.0211",
                "value = nan",
                "weak.busy_watts: must be a finite",
            ),
            (
                "value = 0.672",
                "value = -1",
                "strong.busy_watts: must be a finite",
            ),
            ("slide 12\" }", " \" }", "its source is empty"),
        ];
        for (text, other, reason) in cases {
            let wrong = Day::parse(&SMARTWATCH.replace(text, other), "file").unwrap_err();
            let wrong = wrong.to_string();
            assert!(
                wrong.contains(reason) && wrong.starts_with("file"),
                "{wrong}"
            );
        }
        let unknown = SMARTWATCH.replace("[halves]", "[halves]\nsecond = 1");
        let unknown = Day::parse(&unknown, "file").unwrap_err().to_string();
        for words in ["line 21", "unknown field `second`", "`spinning`"] {
            assert!(unknown.contains(words), "{unknown}");
        }
        let nowhere = Day::read(Path::new("/nowhere.toml")).unwrap_err();
        assert!(nowhere.to_string().contains("/nowhere.toml"));
    }
}
