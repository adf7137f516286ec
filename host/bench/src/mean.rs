//! Means, and ratios of means, with their confidence intervals ([`resample`](crate::resample)).

use fastrand::Rng;

use crate::resample::{DRAWS, draw, interval};

/// A mean, with the interval that holds it at 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    pub(crate) interval: [f64; 2],
}

impl Mean {
    /// The mean of `values`; `None`: there are no values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        Self::by(&[values], |means| means[0])
    }

    /// The ratio of two means; `None`: one of them has no value.
    pub(crate) fn ratio(one: &[f64], other: &[f64]) -> Option<Self> {
        Self::by(&[one, other], |means| means[0] / means[1])
    }

    fn by(values: &[&[f64]], figure: impl Fn(&[f64]) -> f64) -> Option<Self> {
        if values.iter().any(|values| values.is_empty()) {
            return None;
        }
        let means = |values: &[Vec<f64>]| -> Vec<f64> {
            values.iter().map(|values| mean(values)).collect()
        };
        let measured: Vec<Vec<f64>> = values.iter().map(|values| values.to_vec()).collect();
        let mut rng = Rng::with_seed(1);
        let drawn = (0..DRAWS).map(|_| {
            let drawn: Vec<_> = measured
                .iter()
                .map(|values| draw(values, &mut rng))
                .collect();
            figure(&means(&drawn))
        });
        Some(Mean {
            mean: figure(&means(&measured)),
            interval: interval(drawn.collect()),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are few")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_a_narrow_interval() {
        let mean = Mean::of(&[4.0; 9]).unwrap();
        assert_eq!((mean.mean, mean.interval), (4.0, [4.0; 2]));
        assert_eq!(Mean::of(&[]), None);
        assert_eq!(Mean::ratio(&[1.0], &[]), None);
    }
}
