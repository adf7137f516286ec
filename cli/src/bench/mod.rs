//! Measurements, each beside its limit and in the same run: ratios hold on a
//! shared machine where seconds do not.

mod load;
mod start;

use std::path::PathBuf;

use serde_json::{Value, json};

pub use load::{Load, LoadRound};
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
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Power-on to the next stage, for each machine.
    pub starts: Vec<Start>,
    /// Loading, and plain reading.
    pub load: Load,
}

impl Bench {
    /// Measures everything.
    ///
    /// # Errors
    ///
    /// What failed, and where its console log is.
    pub fn run(options: &BenchOptions, tell: &dyn Fn(&str)) -> anyhow::Result<Bench> {
        tell("counting instructions from power-on to the next stage");
        let starts = start::measure(options)?;
        tell("measuring how fast a wake loads");
        let load = load::measure(options, tell)?;
        Ok(Bench { starts, load })
    }

    /// The figures for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let starts: Vec<Value> = self.starts.iter().map(Start::to_json).collect();
        json!({ "start": starts, "load": self.load.to_json() })
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
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert!(median(vec![3.0, 1.0, 2.0]).to_bits() == 2.0f64.to_bits());
        assert!(median(vec![4.0, 1.0, 2.0, 3.0]).to_bits() == 2.5f64.to_bits());
        assert!(median(Vec::new()).is_nan());
    }
}
