//! Accounts for rounding: a printed number stands for all values within half a unit of its last
//! digit.

use std::num::ParseFloatError;

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Printed {
    pub text: String,
    pub value: f64,
    /// Half a unit of the last digit.
    pub half: f64,
}

impl TryFrom<String> for Printed {
    type Error = ParseFloatError;

    /// Parses digits with at most one decimal point.
    fn try_from(text: String) -> Result<Self, ParseFloatError> {
        let decimals = text.split_once('.').map_or(0, |(_, digits)| digits.len());
        Ok(Printed {
            value: text.parse()?,
            half: 0.5 / (0..decimals).fold(1.0, |power, _| power * 10.0),
            text,
        })
    }
}

/// A computed number. Its inputs were rounded, so it also has the least and the greatest possible
/// value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Computed {
    /// The result for the inputs as printed.
    pub value: f64,
    pub least: f64,
    pub most: f64,
}

impl Computed {
    /// Applies `combine` to the values, the least and the greatest of several results. Their inputs
    /// must be independent, and `combine` must be increasing.
    #[must_use]
    pub fn combine(
        of: &[Computed],
        combine: impl Fn(&mut dyn Iterator<Item = f64>) -> f64,
    ) -> Self {
        Computed {
            value: combine(&mut of.iter().map(|one| one.value)),
            least: combine(&mut of.iter().map(|one| one.least)),
            most: combine(&mut of.iter().map(|one| one.most)),
        }
    }

    /// The deviation from the printed number, relative to it.
    #[must_use]
    pub fn deviation(&self, printed: &Printed) -> f64 {
        self.value / printed.value - 1.0
    }

    /// The deviation that rounding does not explain, relative to the printed number. It is zero if
    /// some inputs that round to the printed ones give the printed result. It is infinite if there
    /// is no result.
    #[must_use]
    pub fn beyond_rounding(&self, printed: &Printed) -> f64 {
        if self.value.is_nan() {
            return f64::INFINITY;
        }
        let above = self.least - (printed.value + printed.half);
        let below = (printed.value - printed.half) - self.most;
        above.max(below).max(0.0) / printed.value
    }
}

/// An input: a field of `T`, and half a unit of its last printed digit.
pub type Rounded<T> = (fn(&mut T) -> &mut f64, f64);

/// Computes `result` from rounded `inputs`. Its extremes are taken from the corners of the inputs'
/// ranges. So `result` must rise or fall steadily with each input.
#[must_use]
pub fn over<T: Clone>(inputs: &T, rounded: &[Rounded<T>], result: impl Fn(&T) -> f64) -> Computed {
    let value = result(inputs);
    let moved = |at: &T, (field, half): &Rounded<T>, sign: f64| {
        let mut at = at.clone();
        *field(&mut at) += sign * half;
        at
    };
    // An input without influence would only double the number of corners.
    let matters = |one: &&Rounded<T>| {
        [-1.0, 1.0]
            .iter()
            .any(|&sign| (result(&moved(inputs, one, sign)) - value).abs() > value.abs() * 1e-9)
    };
    let mut corners = vec![inputs.clone()];
    for one in rounded.iter().filter(matters) {
        corners = corners
            .iter()
            .flat_map(|corner| [-1.0, 1.0].map(|sign| moved(corner, one, sign)))
            .collect();
    }
    let results = corners.iter().map(result);
    let (least, most) = results.fold((value, value), |(least, most), one| {
        (least.min(one), most.max(one))
    });
    Computed { value, least, most }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> Printed {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn a_printed_number_stands_for_half_a_unit_around_it() {
        assert_eq!(printed("25.67").half, 0.005);
        assert_eq!(printed("1063").half, 0.5);
        assert_eq!(printed("3.5").half, 0.05);
    }

    #[test]
    fn extremes_are_at_the_corners() {
        let rounded: [Rounded<[f64; 3]>; 3] = [
            (|of| &mut of[0], 0.5),
            (|of| &mut of[1], 0.5),
            (|of| &mut of[2], 0.5),
        ];
        let found = over(&[9.0, 3.0, 7.0], &rounded, |of| of[0] / of[1]);
        assert_eq!(found.value, 3.0);
        assert_eq!((found.least, found.most), (8.5 / 3.5, 9.5 / 2.5));
    }

    #[test]
    fn what_rounding_explains_is_no_deviation() {
        let printed = &printed("54");
        let found = |value: f64| Computed {
            value,
            least: value - 0.2,
            most: value + 0.2,
        };
        assert_eq!(found(53.4).beyond_rounding(printed), 0.0);
        assert!((found(53.4).deviation(printed) + 0.6 / 54.0).abs() < 1e-12);
        assert!((found(53.0).beyond_rounding(printed) - 0.3 / 54.0).abs() < 1e-12);
        assert!((found(56.0).beyond_rounding(printed) - 1.3 / 54.0).abs() < 1e-12);
        assert_eq!(found(f64::NAN).beyond_rounding(printed), f64::INFINITY);
    }

    #[test]
    fn the_least_of_several_is_the_least_of_each() {
        let of = [(3.0, 2.0, 4.0), (2.5, 2.4, 5.0)];
        let of = of.map(|(value, least, most)| Computed { value, least, most });
        let least = Computed::combine(&of, |each| each.fold(f64::INFINITY, f64::min));
        assert_eq!((least.value, least.least, least.most), (2.5, 2.0, 4.0));
    }
}
