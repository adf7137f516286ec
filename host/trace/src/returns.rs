//! What programs store between the ends of their functions.

/// Classes of returns, by the lines that were stored before.
pub const CLASSES: usize = 16;

/// The returns of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Their number.
    pub count: u64,
    /// The sum of the lines that each hart's programs stored since its return before.
    pub lines: u64,
}

/// The class of a return after `lines` different lines were stored: class 0 has none, class *n* has
/// 2<sup>n-1</sup> to 2<sup>n</sup> - 1. The last class also has all that are greater.
#[must_use]
pub fn class(lines: u64) -> usize {
    let bits = (u64::BITS - lines.leading_zeros()) as usize;
    bits.min(CLASSES - 1)
}

/// Whether these are the counts of some returns.
pub(crate) fn are_possible(classes: &[Returns; CLASSES]) -> bool {
    let mut all = classes.iter().enumerate();
    all.all(|(number, returns)| {
        let least = match number {
            0 => 0,
            _ => 1 << (number - 1),
        };
        let most = match number {
            0 => 0,
            _ if number == CLASSES - 1 => 1 << 32,
            _ => (1 << number) - 1,
        };
        let sum = u128::from(returns.lines);
        let count = u128::from(returns.count);
        (count * least..=count * most).contains(&sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let cases = [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 3),
            (16_383, 14),
            (16_384, 15),
            (u64::MAX, 15),
        ];
        for (lines, number) in cases {
            assert_eq!(class(lines), number, "{lines} lines");
        }
    }

    #[test]
    fn counts_of_no_returns_are_found() {
        let with = |number: usize, count, lines| {
            let mut classes = [Returns::default(); CLASSES];
            classes[number] = Returns { count, lines };
            are_possible(&classes)
        };
        for (number, count, lines) in [(0, 9, 0), (1, 9, 9), (2, 2, 4), (2, 2, 6), (15, 1, 1 << 20)]
        {
            assert!(with(number, count, lines), "{number}: {count} with {lines}");
        }
        for (number, count, lines) in [
            (0, 9, 1),
            (1, 9, 8),
            (2, 2, 7),
            (3, 0, 1),
            (15, u64::MAX, 5),
        ] {
            assert!(
                !with(number, count, lines),
                "{number}: {count} with {lines}"
            );
        }
    }
}
