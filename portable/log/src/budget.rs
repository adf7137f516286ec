/// The maximal lines of a second.
const LINES: u32 = 8;

/// Bounds the lines that a guest causes: at most eight in each second. The others are counted.
#[derive(Debug, Default)]
pub struct LineBudget {
    second: u64,
    lines: u32,
    left_out: u32,
}

impl LineBudget {
    /// No line yet.
    #[must_use]
    pub const fn new() -> Self {
        LineBudget {
            second: 0,
            lines: 0,
            left_out: 0,
        }
    }

    /// Asks for a line at this time in milliseconds. Returns the number of lines that were left out
    /// before it; `None` if this one is left out, too.
    pub fn ask(&mut self, ms: u64) -> Option<u32> {
        let second = ms / 1000;
        if second != self.second {
            *self = LineBudget {
                second,
                lines: 0,
                ..*self
            };
        }
        if self.lines == LINES {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.lines += 1;
        Some(core::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_eight_lines_and_the_others_are_counted() {
        let mut budget = LineBudget::new();
        let lines = (0..1000_u64)
            .filter(|ms| budget.ask(*ms) == Some(0))
            .count();
        assert_eq!(lines, 8);
        assert_eq!(budget.ask(1000), Some(992));
        assert_eq!(budget.ask(1001), Some(0), "told once");
        assert_eq!(budget.ask(70_000), Some(0));
    }

    #[test]
    fn a_flood_of_calls_costs_eight_lines_a_second() {
        let mut budget = LineBudget::new();
        let calls = 0..100_000_u64;
        let lines = calls.filter(|call| budget.ask(call / 10).is_some()).count();
        assert_eq!(lines, 80);
    }
}
