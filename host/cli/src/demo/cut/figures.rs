use std::time::Duration;

use poorwill_bench::table::table;
use poorwill_machine::Clock;
use poorwill_machine::cut::RecordReport;

/// Instructions in a microsecond of the machine's own time: one in each nanosecond.
const INSTRUCTIONS_PER_US: u64 = 1000;

/// Figures of the demo of cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutFigures {
    pub(super) rounds: Vec<Round>,
}

/// A cut and its resume. Times are those of the modelled machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    harts: usize,
    bytes: u64,
    stop: Duration,
    go: Duration,
}

impl Round {
    /// Converts the record of a cut, and the time of Go in the machine's own microseconds.
    pub(super) fn new(record: &RecordReport, go_us: u64, clock: Clock) -> Self {
        Round {
            harts: record.harts.unwrap_or_default(),
            bytes: record.bytes.unwrap_or_default(),
            stop: clock.time_of_ticks(record.stop_ticks.unwrap_or_default()),
            go: clock.time_of(go_us.saturating_mul(INSTRUCTIONS_PER_US)),
        }
    }
}

impl CutFigures {
    /// A table with a row for each cut.
    pub(crate) fn table(&self) -> String {
        let mut table = table(["cut", "harts", "bytes", "Stop, ms", "Go, ms"], 0);
        for (number, round) in (1..).zip(&self.rounds) {
            let ms = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1000.0);
            let (number, harts): (usize, _) = (number, round.harts);
            table.add_row([
                number.to_string(),
                harts.to_string(),
                round.bytes.to_string(),
                ms(round.stop),
                ms(round.go),
            ]);
        }
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use poorwill_machine::cut::RecordState;

    use super::*;

    #[test]
    fn a_row_is_in_the_machines_time() {
        let record = RecordReport {
            offset: 0,
            number: 1,
            state: RecordState::Whole,
            reason: None,
            requested: Some(false),
            harts: Some(2),
            machine_harts: Some(2),
            bytes: Some(18_438),
            stop_ticks: Some(2640),
            after_ticks: Some(1000),
        };
        let round = Round::new(&record, 132, Clock::default());
        let figures = CutFigures {
            rounds: vec![round],
        };
        let table = figures.table();
        let row = table.lines().last().unwrap();
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "1", "2", "18438", "1.000", "0.500", ""]);
    }
}
