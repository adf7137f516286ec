//! Times of an appliance's starts. They are milliseconds from power-on by the host's clock, unless
//! a field says otherwise.

use serde::{Deserialize, Serialize};

use crate::spread::{Spread, seconds};
use crate::table::table;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Appliance {
    pub harts: u32,
    pub memory_mib: u64,
    /// Number of keys in redis.
    pub keys: u64,
    /// Starts without an image.
    pub cold: Vec<Start>,
    /// Linux's resumes from hibernation, each after a power-off.
    pub resumed: Vec<Start>,
    /// Reasons of failed resumes from hibernation.
    pub failed_resumes: Vec<String>,
    /// Starts from the snapshot. The power was cut at a random time after each.
    pub snapshot: Vec<Start>,
    /// Bytes that a start from the snapshot loads.
    pub loaded_bytes: u64,
    /// Whether the shop's answer was the same after each start.
    pub same_answers: bool,
    /// Whether each byte of the disk was the same before the first start from the snapshot and
    /// after the last.
    pub disk_unchanged: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Until the firmware started the next stage or the woken OS.
    pub firmware_ms: f64,
    /// Until the first user's program ran, such as a shell.
    pub shell_ms: f64,
    /// Until the shop answered.
    pub application_ms: f64,
}

/// A function that selects the starts of one method.
pub type StartsOf = fn(&Appliance) -> &[Start];

/// The methods of starting, with their names.
pub const METHODS: [(&str, StartsOf); 3] = [
    ("cold boot", |appliance| &appliance.cold),
    ("Linux's hibernation", |appliance| &appliance.resumed),
    ("snapshot", |appliance| &appliance.snapshot),
];

/// Table 1 of Kaminaga's paper: seconds to the shell and to the media player, in the order of
/// [`METHODS`].
pub const PRINTED: [[f64; 2]; 3] = [[2.872, 11.1], [6.370, 10.427], [3.580, 5.357]];

impl Appliance {
    /// Median and extremes of one time over some starts; `None`: there are no starts.
    #[must_use]
    pub fn spread(starts: &[Start], of: fn(&Start) -> f64) -> Option<Spread> {
        Spread::of_any(starts.iter().map(of))
    }

    /// A table of seconds to the shell and to the application for each method, with the paper's
    /// figures.
    #[must_use]
    pub fn table(&self) -> String {
        let heads = [
            "seconds",
            "shell",
            "application",
            "paper's shell",
            "paper's application",
        ];
        let mut table = table(heads, 1);
        table.add_rows(self.rows());
        table.to_string()
    }

    /// The table's rows: method, seconds to the shell and to the application, and the paper's
    /// figures for both.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let row = |((name, starts), printed): ((&str, StartsOf), [f64; 2])| {
            let of = |of| seconds(Self::spread(starts(self), of));
            let shell = of(|start| start.shell_ms);
            let application = of(|start| start.application_ms);
            let printed = printed.map(|seconds| format!("{seconds:.2}"));
            let measured = [name.to_owned(), shell, application];
            measured.into_iter().chain(printed).collect()
        };
        METHODS.into_iter().zip(PRINTED).map(row).collect()
    }

    /// Time from power-on to the application by a cold boot, divided by the time from the snapshot.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        let median = |starts| Self::spread(starts, |start| start.application_ms);
        Some(median(&self.cold)?.median / median(&self.snapshot)?.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appliance() -> Appliance {
        let start = |application_ms| Start {
            firmware_ms: 100.0,
            shell_ms: 200.0,
            application_ms,
        };
        Appliance {
            cold: [40_000.0, 50_000.0, 45_000.0].map(start).to_vec(),
            snapshot: [1_500.0, 900.0, 2_000.0].map(start).to_vec(),
            ..Appliance::default()
        }
    }

    #[test]
    fn the_gain_is_one_of_medians() {
        assert!((appliance().gain().unwrap() - 30.0).abs() < 1e-9);
        assert_eq!(Appliance::default().gain(), None);
    }

    #[test]
    fn the_table_has_what_was_measured_beside_the_paper_s() {
        let table = appliance().table();
        for row in [
            [
                "cold boot",
                "0.20 (0.20 to 0.20)",
                "45.00 (40.00 to 50.00)",
                "2.87",
                "11.10",
            ],
            ["Linux's hibernation", "-", "-", "6.37", "10.43"],
            [
                "snapshot",
                "0.20 (0.20 to 0.20)",
                "1.50 (0.90 to 2.00)",
                "3.58",
                "5.36",
            ],
        ] {
            let has = |line: &str| {
                let cells: Vec<_> = line.split('|').map(str::trim).collect();
                cells[1..6] == row
            };
            assert!(table.lines().skip(2).any(has), "no {row:?} in {table}");
        }
    }
}
