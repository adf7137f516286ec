//! Statistics of a figure that was measured several times.

/// Median and extremes of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// The spread of `values`; `None`: no values.
    pub(crate) fn of_any(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| Self::of(values))
    }

    pub(crate) fn of(values: Vec<f64>) -> Self {
        Spread {
            least: values.iter().copied().fold(f64::NAN, f64::min),
            most: values.iter().copied().fold(f64::NAN, f64::max),
            median: median(values),
        }
    }
}

/// A spread of milliseconds as text, in seconds: the median, with the least and the greatest value.
#[must_use]
pub fn seconds(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |spread| {
        let [median, least, most] =
            [spread.median, spread.least, spread.most].map(|ms| ms / 1000.0);
        format!("{median:.2} ({least:.2} to {most:.2})")
    })
}

/// The median of the values; for an even number, the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        even if even.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, median};

    #[test]
    fn the_median_is_in_the_middle() {
        assert!(median(vec![3.0, 1.0, 2.0]).to_bits() == 2.0f64.to_bits());
        assert!(median(vec![4.0, 1.0, 2.0, 3.0]).to_bits() == 2.5f64.to_bits());
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_spread_has_its_ends() {
        let spread = Spread::of(vec![3.0, 1.0, 7.0]);
        let wanted = Spread {
            median: 3.0,
            least: 1.0,
            most: 7.0,
        };
        assert_eq!(spread, wanted);
        assert_eq!(Spread::of_any([3.0, 1.0, 7.0].into_iter()), Some(wanted));
        assert_eq!(Spread::of_any(std::iter::empty()), None);
    }
}
