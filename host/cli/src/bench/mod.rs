//! Measurements, each beside its limit and in the same run: ratios hold on a
//! shared machine where seconds do not.

pub mod appliance;
pub mod compare;
mod counted;
pub mod host;
pub mod instructions;
mod load;
mod resample;
pub mod results;
mod seal;
mod start;
pub mod targets;

use std::path::PathBuf;

use appliance::{ApplianceOptions, Audience};
use compare::{CompareOptions, Size};
use load::bandwidth;
pub use load::{Load, LoadRound};
use results::Results;
pub use seal::{Cycle, Pair, Sealing};
pub use start::{OPENSBI, Start};

use crate::machine::Watcher;
use crate::size::Bytes;

/// What is needed to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The firmware to measure.
    pub firmware: PathBuf,
    /// Where disks may be made; removed by the caller.
    pub folder: PathBuf,
    /// How often the machine sleeps and wakes.
    pub rounds: u32,
    /// Fewer machines, for a first look.
    pub quick: bool,
    /// MiB of random bytes in its memory.
    pub data_mib: u32,
    /// The guest that sealing is measured with.
    pub test_kernel: PathBuf,
    /// MiB of its memory in use.
    pub sealed_mib: u32,
    /// The machines that are compared with their peers.
    pub sizes: Vec<Size>,
    /// Their harts.
    pub harts: u32,
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
    /// Instructions of a start, a sleep and a wake, as the performance gate has them.
    Instructions,
    /// An appliance's start: cold, from Linux's hibernation, from its snapshot.
    Snapshot,
    /// Sleep and wake beside cold boot, hibernation, QEMU's save and restore, and
    /// plain copies.
    Compare,
}

/// Measures one part into `results`.
///
/// # Errors
///
/// What failed, with the console's end.
pub fn measure(
    options: &BenchOptions,
    part: Part,
    results: &mut Results,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    match part {
        Part::Start => {
            tell("counting instructions from power-on to the next stage");
            results.start = start::measure(options)?;
        }
        Part::Load => {
            tell("measuring how fast a wake loads");
            results.load = Some(load::measure(options, tell)?);
        }
        Part::Seal => {
            tell("measuring what sealing costs");
            results.seal = seal::measure(options, tell)?;
        }
        Part::Snapshot => {
            tell("starting an appliance cold, from hibernation, and from a snapshot");
            let options = ApplianceOptions {
                firmware: options.firmware.clone(),
                folder: options.folder.clone(),
                memory: Bytes::gib(1),
                harts: options.harts,
                for_figures: true,
                others: options.rounds,
                wakes: options.rounds,
                log: None,
            };
            appliance::play(&options, &Told(tell), &mut results.appliance)?;
        }
        Part::Instructions => {
            results.instructions = instructions::measure(options, tell)?;
        }
        Part::Compare => {
            tell("comparing with cold boot, hibernation, and QEMU's save and restore");
            let options = CompareOptions {
                firmware: options.firmware.clone(),
                folder: options.folder.clone(),
                rounds: options.rounds,
                hibernations: if options.quick { 1 } else { options.rounds },
                harts: options.harts,
                sizes: options.sizes.clone(),
            };
            compare::measure(&options, &mut results.compare, tell)?;
        }
    }
    Ok(())
}

/// An audience that is told, and sees nothing.
struct Told<'t>(&'t dyn Fn(&str));

impl Audience for Told<'_> {
    fn step(&self, text: &str) {
        (self.0)(text);
    }

    fn say(&self, text: &str) {
        (self.0)(text);
    }

    fn watcher(&self) -> Option<Watcher> {
        None
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
    /// Of as many as there are; `None` of none.
    pub(crate) fn of_any(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| Self::of(values))
    }

    fn of(values: Vec<f64>) -> Self {
        Spread {
            least: values.iter().copied().fold(f64::NAN, f64::min),
            most: values.iter().copied().fold(f64::NAN, f64::max),
            median: median(values),
        }
    }
}

/// A spread of milliseconds, in seconds: the median, with the least and the most.
pub(crate) fn seconds(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |spread| {
        let [median, least, most] =
            [spread.median, spread.least, spread.most].map(|ms| ms / 1000.0);
        format!("{median:.2} ({least:.2} to {most:.2})")
    })
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

/// A result with figures that are easy to reckon with.
#[cfg(test)]
pub(crate) fn sample() -> Results {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bench.json");
    Results::read(file.as_ref()).expect("the sample is well-formed")
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
        assert_eq!(Spread::of_any([3.0, 1.0, 7.0].into_iter()), Some(wanted));
        assert_eq!(Spread::of_any(std::iter::empty()), None);
    }
}
