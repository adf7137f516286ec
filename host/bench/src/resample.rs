//! Computes confidence intervals of ratios by Efron's bootstrap with percentiles. Figures are drawn
//! from the measured ones, with repetition, and the ratios are computed from them. This is done
//! many times.

use fastrand::Rng;

use crate::compare::{Case, Comparison, QemuCycle};

/// How often the figures are drawn.
pub(super) const DRAWS: usize = 500;

/// The share of the draws that lies beyond each end of an interval: 5 % together.
const BEYOND: f64 = 0.025;

/// Randomly drawn comparisons. The same figures always give the same draws.
pub(super) fn draws(compare: &Comparison) -> impl Iterator<Item = Comparison> {
    let mut rng = Rng::with_seed(1);
    (0..DRAWS).map(move |_| resampled(compare, &mut rng))
}

fn resampled(compare: &Comparison, rng: &mut Rng) -> Comparison {
    Comparison {
        cases: (compare.cases.iter())
            .map(|case| resampled_case(case, rng))
            .collect(),
        ..Comparison::default()
    }
}

fn resampled_case(case: &Case, rng: &mut Rng) -> Case {
    let of_kind = |kind: &str| -> Vec<QemuCycle> {
        let cycles = case.qemu.iter().filter(|cycle| cycle.kind == kind);
        cycles.cloned().collect()
    };
    Case {
        installed_mib: case.installed_mib,
        used_mib: case.used_mib,
        cold_boots: draw(&case.cold_boots, rng),
        sleeps: draw(&case.sleeps, rng),
        wakes: draw(&case.wakes, rng),
        plain: draw(&case.plain, rng),
        qemu: (case.qemu_kinds().into_iter())
            .flat_map(|kind| draw(&of_kind(kind), rng))
            .collect(),
        hibernations: draw(&case.hibernations, rng),
        failed_hibernations: Vec::new(),
        not_had: Vec::new(),
    }
}

/// Draws the same number of figures as there are, with repetition.
pub(super) fn draw<T: Clone>(figures: &[T], rng: &mut Rng) -> Vec<T> {
    let one = |_| figures[rng.usize(..figures.len())].clone();
    (0..figures.len()).map(one).collect()
}

/// The interval that holds 95 of 100 `values`. There must be at least one.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there are few"
)]
pub(super) fn interval(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let beyond = (values.len() as f64 * BEYOND) as usize;
    [values[beyond], values[values.len() - 1 - beyond]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_figure_is_one_that_was_measured() {
        let compare = sample().compare.unwrap();
        let mut seen = Vec::new();
        for drawn in draws(&compare) {
            assert_eq!(drawn.cases.len(), compare.cases.len());
            for (one, of) in drawn.cases.iter().zip(&compare.cases) {
                assert_eq!(one.name(), of.name());
                assert_eq!(one.sleeps.len(), of.sleeps.len());
                assert!(one.sleeps.iter().all(|sleep| of.sleeps.contains(sleep)));
                assert_eq!(one.qemu_kinds(), of.qemu_kinds());
                assert_eq!(one.qemu.len(), of.qemu.len());
            }
            seen.push(drawn.cases[0].sleeps.clone());
        }
        assert!(seen.iter().any(|sleeps| *sleeps != seen[0]));
        let again: Vec<_> = (draws(&compare).map(|drawn| drawn.cases[0].sleeps.clone())).collect();
        assert_eq!(seen, again);
    }

    #[test]
    fn what_is_rare_is_left_out() {
        let values = (0..200).map(f64::from).collect();
        assert_eq!(interval(values), [5.0, 194.0]);
        assert_eq!(interval(vec![1.0]), [1.0, 1.0]);
    }
}
