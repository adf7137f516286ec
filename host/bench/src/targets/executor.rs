use super::target::{Limit, Target, value};
use crate::executor::{Case, Executor, Part, as_f64};

/// A figure of a case, for a target.
type Figure = fn(&Case) -> Option<f64>;

/// The bounds that docs/executor.md names.
const OF_A_CASE: [(&str, Limit, Figure); 5] = [
    (
        "The weak core's instructions / the OS's, both halves with devices, warm",
        Limit::AtMost(2.2),
        |case| warm(case, true),
    ),
    ("The same without devices", Limit::AtMost(2.4), |case| {
        warm(case, false)
    }),
    (
        "The weak core's instructions / the OS's, both halves, the first time",
        Limit::AtMost(20.0),
        |case| case.first_ratio(Part::Both),
    ),
    (
        "The weak core's instructions of the second suspend half / of a warm one",
        Limit::AtMost(1.3),
        |case| case.second_to_warm(Part::Suspend),
    ),
    (
        "The weak core's instructions of the second resume half / of a warm one",
        Limit::AtMost(1.3),
        |case| case.second_to_warm(Part::Resume),
    ),
];

fn warm(case: &Case, has_devices: bool) -> Option<f64> {
    let ratio = case.warm_ratio(Part::Both)?;
    (case.has_devices == has_devices).then_some(ratio)
}

/// The most instructions of a lent hart. Those that save and restore its state come on top.
const LENT: Limit = Limit::AtMost(10_000.0);

pub(super) fn targets(executor: &Executor) -> Vec<Target> {
    let lent = executor.accesses.as_ref().and_then(|all| all.lent);
    let lent = Target {
        what: "Instructions of a lent hart, from its request to its return".into(),
        limit: LENT,
        values: (lent.into_iter())
            .map(|lent| value("1 hart, devices", as_f64(lent), LENT))
            .collect(),
    };
    let of_cases = OF_A_CASE.map(|(what, limit, figure)| {
        let measured = executor.cases.iter().filter_map(|case| {
            let figure = figure(case).filter(|figure| figure.is_finite())?;
            Some(value(&case.name(), figure, limit))
        });
        Target {
            what: what.into(),
            limit,
            values: measured.collect(),
        }
    });
    of_cases.into_iter().chain([lent]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::executor::sample;

    #[test]
    fn each_case_is_judged_by_its_bound() {
        let all = targets(&sample());
        let verdicts: Vec<_> = all.iter().map(Target::verdict).collect();
        let (met, missed) = (Verdict::Met, Verdict::Missed);
        assert_eq!(verdicts, [missed, met, missed, met, met, met]);
        assert_eq!(all[0].values.len(), 1);
        assert_eq!(all[0].values[0].case, "1 hart, devices");
        assert_eq!(all[2].values.len(), 2);
        let none = targets(&Executor::default());
        assert!(none.iter().all(|target| target.verdict() == missed));
    }
}
