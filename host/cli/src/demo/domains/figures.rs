use std::time::Duration;

use poorwill_bench::table::table;

/// Figures of the demo of domains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DomainsFigures {
    /// From the power-on.
    pub(super) cold_boot: Start,
    /// From the byte that wakes the machine.
    pub(super) wakes: Vec<Start>,
    /// From the power-on.
    pub(super) persist_wakes: Vec<Start>,
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
        for (name, wakes) in [
            ("wake", &self.wakes),
            ("wake with the power off", &self.persist_wakes),
        ] {
            for (number, wake) in wakes.iter().enumerate() {
                add(format!("{name} {}", number + 1), wake);
            }
        }
        table.to_string()
    }

    /// A sentence about the frames.
    pub(crate) fn told(&self) -> String {
        format!(
            "{} frames, {} sleeps: no frame was lost, repeated or stale.",
            self.frames,
            self.wakes.len() + self.persist_wakes.len()
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
            persist_wakes: vec![start(200)],
            frames: 12,
        };
        let table = figures.table();
        for words in [
            "| cold boot ",
            "400.0",
            "4000.0",
            "| wake 1 ",
            "| wake with the power off 1 |",
            " 3.0",
            "30.0",
        ] {
            assert!(table.contains(words), "{words}: {table}");
        }
        assert!(figures.told().starts_with("12 frames, 2 sleeps"));
    }
}
