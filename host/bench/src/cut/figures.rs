//! LightPC's figures 8b, 20, 21 and 22 from measured cuts, and their bounds.

use super::machine::{Load, Subject};
use super::plan::{Plan, Question, plan};
use super::results::Cuts;
use super::traced::{Cut, Measured};
use super::work::Work;

/// A bound of the paper, and what was computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// What is bounded, with the paper's figure.
    pub what: &'static str,
    /// The computed value; `None`: not measured.
    pub value: Option<f64>,
    /// The most that it may be.
    pub most: f64,
    /// The unit.
    pub unit: &'static str,
}

impl Bound {
    /// Whether the value is within the bound; `None`: not measured.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.value.map(|value| value <= self.most)
    }

    /// The verdict in a word.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }
}

/// Stop of a machine in milliseconds, by parts: until the devices are quiet, from then to the commit,
/// device accesses, and what memory's devices still write.
#[must_use]
pub fn parts(cut: &Cut) -> [f64; 4] {
    // The record's ticks count instructions; the model's time is divided likewise.
    let share = ratio(cut.after_ticks.min(cut.ticks), cut.ticks.max(1));
    let time = ms(cut.stop.time_ns);
    [
        time * (1.0 - share),
        time * share,
        ms(cut.accesses_ns()),
        ms(cut.stop.settled_ns - cut.stop.time_ns),
    ]
}

/// Names of these parts.
pub const PARTS: [&str; 4] = [
    "until the devices are quiet",
    "from then to the commit",
    "device accesses",
    "row buffers",
];

/// Nanoseconds in milliseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a figure")]
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The two machines of figure 22 that the paper names: cores, bytes of all caches, and the hold-up.
/// Of the second, each core has 16 KiB.
const SCALED: [(u64, u64, &str); 2] = [(64, 40 << 20, "server"), (32, 32 * (16 << 10), "16ms")];

/// The plan of one of these machines, with all PCI functions that a cut keeps.
fn scaled(work: &Work, (cores, cache, supply): (u64, u64, &str)) -> Option<Plan> {
    let question = Question {
        cores,
        cache,
        shared: 0,
        is_lru: true,
        functions: super::plan::MOST_FUNCTIONS,
        supply: supply.parse().ok()?,
    };
    plan(&question, work).ok()
}

/// All bounds. Stop of the scaled machines has the firmware's margin, and all functions.
#[must_use]
pub fn bounds(cuts: &Cuts) -> Vec<Bound> {
    let find = |harts, load| cuts.find(Subject::new(harts, load));
    let stop = |harts, load| {
        let worst = find(harts, load).and_then(Measured::worst);
        worst.map(|cut| ms(cut.stop_ns()))
    };
    let go = find(8, Load::Idle).map(Measured::go_cycles);
    let scaled = |index: usize| {
        let plan = scaled(&cuts.work()?, SCALED[index])?;
        Some(ms(plan.stop.total().saturating_add(plan.functions_ns)))
    };
    let idle = stop(8, Load::Idle);
    let bound = |what, value, most, unit| Bound {
        what,
        value,
        most,
        unit,
    };
    vec![
        bound("8b: Stop, 8 idle harts", idle, 8.6, "ms"),
        bound("8b: Stop, 8 busy harts", stop(8, Load::Busy), 10.5, "ms"),
        bound(
            "Stop, 8 idle harts, Poorwill's own (aim 1.0)",
            idle,
            1.3,
            "ms",
        ),
        bound(
            "21: Go, 8 idle harts",
            go.map(|go| ratio(go, 1_000_000)),
            12.8,
            "million cycles",
        ),
        bound("22: Stop, 64 cores with 40 MiB", scaled(0), 55.0, "ms"),
        bound("22: Stop, 32 cores with 16 KiB each", scaled(1), 16.0, "ms"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::fake::measured;
    use super::*;

    fn cuts(all: Vec<Measured>) -> Cuts {
        Cuts {
            machines: all,
            ..Cuts::default()
        }
    }

    #[test]
    fn what_was_not_measured_meets_no_bound() {
        let none = bounds(&Cuts::default());
        assert!(none.iter().all(|bound| bound.is_met().is_none()));
        assert!(none.iter().all(|bound| bound.verdict() == "not measured"));
    }

    #[test]
    fn a_bound_is_met_or_missed() {
        let all = |busy| {
            cuts(vec![
                measured(1, Load::Idle, 0, 900_000),
                measured(8, Load::Idle, 0, 1_250_000),
                measured(8, Load::Busy, 0, busy),
                measured(1, Load::Idle, 16, 4_000_000),
            ])
        };
        let verdicts = |busy| {
            bounds(&all(busy))
                .iter()
                .map(Bound::verdict)
                .collect::<Vec<_>>()
        };
        assert_eq!(verdicts(10_500_000), ["met"; 6]);
        assert_eq!(verdicts(10_500_001)[1], "MISSED");
        let slow = cuts(vec![
            measured(1, Load::Idle, 0, 900_000),
            measured(8, Load::Idle, 0, 50_000_000),
            measured(1, Load::Idle, 16, 4_000_000),
        ]);
        let verdicts: Vec<_> = bounds(&slow).iter().map(Bound::verdict).collect();
        let expected = [
            "MISSED",
            "not measured",
            "MISSED",
            "met",
            "MISSED",
            "MISSED",
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn the_parts_make_up_stop() {
        let machine = measured(8, Load::Idle, 0, 2_000_000);
        let cut = machine.worst().unwrap();
        let sum: f64 = parts(cut).iter().sum();
        assert!((sum - 2.0).abs() < 1e-9, "{:?}", parts(cut));
    }
}
