//! Instructions at which the power-fail line changes, as arguments name them.

use std::ops::Range;

/// The `count`th execution of any of these instructions, by any hart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Virtual addresses, in order, without overlap.
    pub ranges: Vec<Range<u64>>,
    /// The execution to act at, from 1.
    pub count: u64,
}

impl Code {
    /// Whether the instruction at `address` is one of these.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        contains(&self.ranges, address)
    }
}

/// Whether `address` is in one of the ranges, which are in order.
#[must_use]
pub fn contains(ranges: &[Range<u64>], address: u64) -> bool {
    let next = ranges.partition_point(|range| range.end <= address);
    (ranges.get(next)).is_some_and(|range| range.contains(&address))
}

/// Parses a number, decimal or hexadecimal with `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses addresses and half-open ranges `START-END` that are joined by `+`.
pub(super) fn ranges(text: &str) -> Option<Vec<Range<u64>>> {
    let parts = text.split('+').map(range);
    let ranges: Vec<_> = parts.collect::<Option<_>>()?;
    let is_apart = ranges.windows(2).all(|two| two[0].end <= two[1].start);
    is_apart.then_some(ranges)
}

fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = match text.split_once('-') {
        Some((start, end)) => (number(start)?, number(end)?),
        None => (number(text)?, number(text)?.checked_add(1)?),
    };
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_a_range_of_its_own() {
        let one = |range| Some(vec![range]);
        assert_eq!(ranges("0x10"), one(16..17));
        assert_eq!(ranges("16-0x20"), one(16..32));
        assert_eq!(ranges("1+3-5+5"), Some(vec![1..2, 3..5, 5..6]));
        for wrong in [
            "", "-", "5-", "5-5", "6-5", "x", "1-2-3", "1+", "3+1", "1-4+3",
        ] {
            assert_eq!(ranges(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_is_in_one_of_the_ranges() {
        let ranges = ranges("2-4+4-5+9").expect("ranges");
        let code = Code { ranges, count: 1 };
        let within: Vec<_> = (0..12).filter(|address| code.contains(*address)).collect();
        assert_eq!(within, [2, 3, 4, 9]);
    }
}
