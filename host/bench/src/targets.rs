//! The bench's targets, and whether the figures meet them. A target is met if each measured case
//! meets it. Ratios are of medians.
//!
//! Other load on the host changes all ratios. A target that is not met is called unclear if another
//! run might meet it.

mod domains;
mod executor;
mod target;

use std::collections::HashMap;

use crate::appliance::Appliance;
use crate::compare::{Case, Comparison};
use crate::domains::Domains;
use crate::executor::Executor;
use crate::host::Environment;
use crate::resample;
use target::value;

pub use target::{Limit, Target, Value, Verdict};

/// Computes the ratio of one case; `None`: its figures were not measured.
type Ratio = fn(&Case) -> Option<f64>;

const OF_A_CASE: [(&str, Limit, Ratio); 5] = [
    (
        "Image size / memory that the kernel calls used at the request",
        Limit::AtMost(1.10),
        image_in_used,
    ),
    (
        "Rate of loading / rate of Linux's plain read of the same bytes",
        Limit::AtLeast(0.85),
        |case| Some(case.load_rate()? / case.plain_read_rate()?),
    ),
    (
        "Rate of saving / rate of Linux's plain flushed write of the same bytes",
        Limit::AtLeast(0.8),
        |case| Some(case.save_rate()? / case.plain_write_rate()?),
    ),
    (
        "A wake / (QEMU's mapped-ram restore + the kernel's resume), to redis's first answer",
        Limit::AtMost(2.0),
        |case| {
            let restore = case.qemu(MAPPED_RAM, |cycle| cycle.total_ms)?.median;
            Some(wake(case)? / (restore + case.kernel_resume()?.median))
        },
    ),
    (
        "A sleep / QEMU's own save of the faster kind (request to QEMU's end)",
        Limit::AtMost(2.0),
        |case| Some(case.sleep(|sleep| sleep.total_ms)?.median / quickest_save(case)?),
    ),
];

/// The kind of QEMU's saves that the targets use.
const MAPPED_RAM: &str = "mapped-ram";

/// All targets, with their values from the figures.
#[must_use]
pub fn targets(
    environment: &Environment,
    compare: Option<&Comparison>,
    appliance: Option<&Appliance>,
    of_domains: Option<&Domains>,
    of_executor: Option<&Executor>,
) -> Vec<Target> {
    let mut all = compare.map_or_else(Vec::new, |compare| of_comparison(environment, compare));
    if let Some(appliance) = appliance {
        let limit = Limit::AtLeast(20.0);
        let gain = appliance.gain().filter(|gain| gain.is_finite());
        all.push(Target {
            what: "The appliance's cold boot / its snapshot's wake (power-on to the shop's first answer)".into(),
            limit,
            values: gain.map(|gain| value("appliance", gain, limit)).into_iter().collect(),
        });
    }
    all.extend(of_domains.map(domains::targets).into_iter().flatten());
    all.extend(of_executor.map(executor::targets).into_iter().flatten());
    all
}

fn of_comparison(environment: &Environment, compare: &Comparison) -> Vec<Target> {
    let mut all = ratios(compare);
    add_intervals(&mut all, compare);
    let limit = if environment.quick { 5.0 } else { 20.0 };
    all.push(Target {
        what: "Minutes of this bench".into(),
        limit: Limit::AtMost(limit),
        values: vec![value(
            "this run",
            environment.seconds / 60.0,
            Limit::AtMost(limit),
        )],
    });
    all
}

/// Adds the confidence interval of each ratio.
fn add_intervals(targets: &mut [Target], compare: &Comparison) {
    let mut drawn: HashMap<(usize, String), Vec<f64>> = HashMap::new();
    for draw in resample::draws(compare) {
        for (index, target) in ratios(&draw).into_iter().enumerate() {
            for value in target.values {
                let values = drawn.entry((index, value.case)).or_default();
                values.push(value.value);
            }
        }
    }
    for (index, target) in targets.iter_mut().enumerate() {
        for value in &mut target.values {
            let values = drawn.remove(&(index, value.case.clone()));
            value.interval = values.map(resample::interval);
        }
    }
}

fn ratios(compare: &Comparison) -> Vec<Target> {
    let mut all: Vec<Target> = OF_A_CASE
        .iter()
        .map(|(what, limit, ratio)| of_cases(&compare.cases, what, *limit, *ratio))
        .collect();
    all.insert(1, same_in_any_machine(compare));
    all.insert(4, cold_boots(compare));
    all.insert(5, hibernations(compare));
    all
}

/// A boot leaves little memory in use. So boots are compared with the wakes of the case with the
/// least memory in use, which took turns with them.
fn cold_boots(compare: &Comparison) -> Target {
    let what = "Cold boot / wake of the least memory in use (power-on to redis's first answer)";
    of_cases(compare.least(), what, Limit::AtLeast(30.0), |case| {
        Some(case.cold_boot(|boot| boot.total_ms)?.median / wake(case)?)
    })
}

/// Linux's resume begins with a boot. It is compared with the same wakes as boots are.
fn hibernations(compare: &Comparison) -> Target {
    let what = "Linux's resume from hibernation / wake of the least memory in use (power-on to redis's first answer)";
    let hibernated = (compare.cases.iter()).filter(|case| !case.hibernations.is_empty());
    let least = hibernated.min_by_key(|case| case.used_mib);
    of_cases(least, what, Limit::AtLeast(15.0), |case| {
        Some(case.hibernation(|one| one.total_ms)?.median / wake(case)?)
    })
}

fn of_cases<'c>(
    cases: impl IntoIterator<Item = &'c Case>,
    what: &str,
    limit: Limit,
    ratio: impl Fn(&Case) -> Option<f64>,
) -> Target {
    let measured = cases.into_iter().filter_map(|case| {
        let ratio = ratio(case).filter(|ratio| ratio.is_finite())?;
        Some(value(&case.name(), ratio, limit))
    });
    Target {
        what: what.into(),
        limit,
        values: measured.collect(),
    }
}

/// The wakes with half a GiB in use, in the largest and in the smallest machine.
fn same_in_any_machine(compare: &Comparison) -> Target {
    let limit = Limit::AtMost(1.1);
    let of_half: Vec<&Case> = compare
        .cases
        .iter()
        .filter(|case| case.used_mib == 512)
        .collect();
    let smallest = of_half.iter().min_by_key(|case| case.installed_mib);
    let largest = of_half.iter().max_by_key(|case| case.installed_mib);
    let mut values = Vec::new();
    if let (Some(smallest), Some(largest)) = (smallest, largest)
        && smallest.installed_mib < largest.installed_mib
        && let (Some(one), Some(other)) = (wake(smallest), wake(largest))
    {
        let case = format!("{} beside {}", largest.name(), smallest.name());
        values.push(value(&case, (one / other).max(other / one), limit));
    }
    Target {
        what: "Wakes of 0.5 GiB in a large and in a small machine: the longer / the shorter".into(),
        limit,
        values,
    }
}

fn wake(case: &Case) -> Option<f64> {
    Some(case.wake(|wake| wake.total_ms)?.median)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio to three digits")]
fn image_in_used(case: &Case) -> Option<f64> {
    let ratio = |saved: u64, used: u64| saved as f64 / used as f64;
    Some(
        case.sleep(|sleep| Some(ratio(sleep.saved_bytes, sleep.used_bytes?)))?
            .median,
    )
}

fn quickest_save(case: &Case) -> Option<f64> {
    let kinds = case.qemu_kinds();
    let saves = kinds
        .iter()
        .filter_map(|kind| case.qemu(kind, |cycle| cycle.save_total_ms));
    saves.map(|spread| spread.median).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::PlainCopy;
    use crate::results::Results;
    use crate::sample;

    fn all_of(results: &Results) -> Vec<Target> {
        let (compare, appliance) = (results.compare.as_ref(), results.appliance.as_ref());
        targets(&results.environment, compare, appliance, None, None)
    }

    fn of(results: &Results, beginning: &str) -> Target {
        let found = all_of(results)
            .into_iter()
            .find(|one| one.what.starts_with(beginning));
        found.unwrap_or_else(|| panic!("no target {beginning:?}"))
    }

    #[test]
    fn ratios_are_of_medians() {
        let sample = sample();
        let image = of(&sample, "Image size");
        assert!((image.values[0].value - 1.05).abs() < 1e-6, "{image:?}");
        assert_eq!(image.verdict(), Verdict::Met);
        let cold = of(&sample, "Cold boot");
        assert!((cold.values[0].value - 32.0).abs() < 1e-9, "{cold:?}");
        let restore = of(&sample, "A wake / (QEMU");
        assert!(
            (restore.values[0].value - 400.0 / 300.0).abs() < 1e-9,
            "{restore:?}"
        );
        let sleep = of(&sample, "A sleep / QEMU");
        assert!(
            (sleep.values[0].value - 900.0 / 350.0).abs() < 1e-9,
            "{sleep:?}"
        );
        assert_ne!(sleep.verdict(), Verdict::Met);
    }

    #[test]
    fn one_case_that_fails_fails_the_target() {
        let mut sample = sample();
        let compare = sample.compare.as_mut().unwrap();
        for sleep in &mut compare.cases[1].sleeps {
            sleep.saved_bytes *= 2;
        }
        let image = of(&sample, "Image size");
        assert!(image.values[0].met && image.verdict() == Verdict::Missed);
        assert_eq!(image.worst().unwrap().case, "0.5 of 8 GiB");
    }

    #[test]
    fn machines_of_two_sizes_are_set_beside_each_other() {
        let same = of(&sample(), "Wakes of 0.5 GiB");
        assert_eq!(same.values.len(), 1);
        assert_eq!(same.values[0].case, "0.5 of 8 GiB beside 0.5 of 1 GiB");
        assert!((same.values[0].value - 1.05).abs() < 1e-9, "{same:?}");
    }

    #[test]
    fn what_begins_with_a_boot_is_held_against_the_least_memory_in_use() {
        let mut sample = sample();
        let compare = sample.compare.as_mut().unwrap();
        let hibernated = (compare.cases.iter())
            .position(|case| !case.hibernations.is_empty())
            .unwrap();
        let mut more = compare.cases[hibernated].clone();
        more.used_mib *= 2;
        let more_name = more.name();
        compare.cases.push(more);
        for beginning in ["Cold boot", "Linux's resume"] {
            let target = of(&sample, beginning);
            let names: Vec<_> = (target.values.iter())
                .map(|value| value.case.as_str())
                .collect();
            assert!(!names.contains(&more_name.as_str()), "{target:?}");
            assert!(!target.values.is_empty(), "{target:?}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let mut sample = sample();
        for case in &mut sample.compare.as_mut().unwrap().cases {
            case.hibernations.clear();
        }
        let hibernation = of(&sample, "Linux's resume");
        assert!(hibernation.values.is_empty() && hibernation.verdict() == Verdict::Missed);
        sample.compare = None;
        assert_eq!(all_of(&sample), []);
    }

    /// The interval of the rate of saving, if the plain writes took `write_ms`.
    fn interval(write_ms: impl Iterator<Item = f64>) -> [f64; 2] {
        let mut sample = sample();
        let case = &mut sample.compare.as_mut().unwrap().cases[0];
        let (plain, sleep) = (case.plain[0], case.sleeps[0]);
        case.plain = write_ms
            .map(|write_ms| PlainCopy { write_ms, ..plain })
            .collect();
        case.sleeps = vec![sleep; case.plain.len()];
        let name = case.name();
        let saving = of(&sample, "Rate of saving");
        let value = saving.values.iter().find(|value| value.case == name);
        value.unwrap().interval.unwrap()
    }

    #[test]
    fn intervals_are_as_wide_as_the_figures_are_apart_and_narrower_for_many() {
        let [least, most] = interval([200.0; 10].into_iter());
        assert!((most - least).abs() < 1e-9, "{least} to {most}");
        let few = interval([100.0, 200.0, 300.0, 100.0, 300.0].into_iter());
        assert!((few[1] / few[0] - 3.0).abs() < 1e-9, "{few:?}");
        let many = interval((0..100).map(|count| 150.0 + f64::from(count)));
        assert!(many[1] / many[0] < 1.25, "{many:?}");
    }

    #[test]
    fn a_miss_is_unclear_where_the_bound_is_within_the_interval() {
        let limit = Limit::AtLeast(0.8);
        let with = |case: &str, of: f64, interval| Value {
            interval,
            ..value(case, of, limit)
        };
        let target = |values| Target {
            what: String::new(),
            limit,
            values,
        };
        let met = with("met", 0.81, Some([0.7, 0.9]));
        let unclear = with("unclear", 0.7, Some([0.6, 0.8]));
        let missed = with("missed", 0.75, Some([0.7, 0.79]));
        let once = with("once", 0.79, None);
        assert_eq!(unclear.text(), "0.70 (0.60 to 0.80)");
        assert_eq!(target(vec![met.clone()]).verdict(), Verdict::Met);
        assert_eq!(target(vec![once]).verdict(), Verdict::Missed);
        let two = target(vec![unclear.clone(), met.clone()]);
        assert_eq!(two.verdict(), Verdict::Unclear);
        assert_eq!(two.worst(), Some(&unclear));
        let all = target(vec![met, missed.clone(), unclear]);
        assert_eq!(all.verdict(), Verdict::Missed);
        assert_eq!(all.worst(), Some(&missed));
    }
}
