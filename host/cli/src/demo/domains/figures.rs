use std::time::Duration;

use poorwill_bench::table::table;

/// Figures of the demo of domains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DomainsFigures {
    /// From the power-on.
    pub(super) cold_boot: Start,
    /// From the byte that wakes the machine.
    pub(super) wakes: Vec<Start>,
    /// Frames on the bus.
    pub(super) frames: usize,
}

/// When each domain is back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// The critical guest's first frame.
    pub(super) first_frame: Duration,
    /// Linux's first answer on its console.
    pub(super) answer: Duration,
}

impl DomainsFigures {
    /// A table with a row for each start.
    pub(crate) fn table(&self) -> String {
        let mut table = table(["start", "first frame, ms", "Linux answers, ms"], 1);
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
        let mut add = |name: String, start: &Start| {
            table.add_row([name, ms(start.first_frame), ms(start.answer)]);
        };
        add("cold boot".into(), &self.cold_boot);
        for (number, wake) in (1..).zip(&self.wakes) {
            let number: u32 = number;
            add(format!("wake {number}"), wake);
        }
        table.to_string()
    }

    /// A sentence about the frames.
    pub(crate) fn told(&self) -> String {
        format!(
            "{} frames, {} sleeps: no frame was lost or repeated.",
            self.frames,
            self.wakes.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_a_row() {
        let start = |ms| Start {
            first_frame: Duration::from_millis(ms),
            answer: Duration::from_millis(10 * ms),
        };
        let figures = DomainsFigures {
            cold_boot: start(400),
            wakes: vec![start(3)],
            frames: 12,
        };
        let table = figures.table();
        for words in [
            "| cold boot |",
            "400.0",
            "4000.0",
            "| wake 1    |",
            " 3.0",
            "30.0",
        ] {
            assert!(table.contains(words), "{words}: {table}");
        }
        assert!(figures.told().starts_with("12 frames, 1 sleeps"));
    }
}
