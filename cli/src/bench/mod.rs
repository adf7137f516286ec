//! Measurements, each beside its limit and in the same run: ratios hold on a
//! shared machine where seconds do not.

mod load;
mod seal;
mod start;

use std::path::PathBuf;

use serde_json::{Value, json};

use load::bandwidth;
pub use load::{Load, LoadRound};
pub use seal::{Cycle, Pair, Sealing};
pub use start::{OPENSBI, Start};

/// What is needed to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The firmware to measure.
    pub firmware: PathBuf,
    /// Where a disk may be made.
    pub folder: PathBuf,
    /// How often the machine sleeps and wakes.
    pub rounds: u32,
    /// MiB of random bytes in its memory.
    pub data_mib: u32,
    /// The guest that sealing is measured with.
    pub test_kernel: PathBuf,
    /// MiB of its memory in use.
    pub sealed_mib: u32,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Instructions from power-on to the next stage, beside OpenSBI's.
    Start,
    /// The bandwidth of a wake's loading, beside a plain read.
    Load,
    /// What sealing costs, beside plain images and the cipher alone.
    Seal,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    /// Power-on to the next stage, for each machine.
    pub starts: Vec<Start>,
    /// Loading, and plain reading.
    pub load: Option<Load>,
    /// Plain and sealed, for each number of harts.
    pub sealing: Vec<Sealing>,
}

impl Bench {
    /// Measures `parts`.
    ///
    /// # Errors
    ///
    /// What failed, and where its console log is.
    pub fn run(
        options: &BenchOptions,
        parts: &[Part],
        tell: &dyn Fn(&str),
    ) -> anyhow::Result<Bench> {
        let mut bench = Bench::default();
        for part in parts {
            match part {
                Part::Start => {
                    tell("counting instructions from power-on to the next stage");
                    bench.starts = start::measure(options)?;
                }
                Part::Load => {
                    tell("measuring how fast a wake loads");
                    bench.load = Some(load::measure(options, tell)?);
                }
                Part::Seal => {
                    tell("measuring what sealing costs");
                    bench.sealing = seal::measure(options, tell)?;
                }
            }
        }
        Ok(bench)
    }

    /// The figures for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let starts: Vec<Value> = self.starts.iter().map(Start::to_json).collect();
        let load = self.load.as_ref().map(Load::to_json);
        let sealing: Vec<Value> = self.sealing.iter().map(Sealing::to_json).collect();
        json!({ "start": starts, "load": load, "seal": sealing })
    }
}

/// The middle of some values, and their ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// See [`median`].
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
}

impl Spread {
    fn of(values: Vec<f64>) -> Self {
        Spread {
            least: values.iter().copied().fold(f64::NAN, f64::min),
            most: values.iter().copied().fold(f64::NAN, f64::max),
            median: median(values),
        }
    }
}

/// The middle one of the values; the mean of the middle two of an even number.
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
    }
}
