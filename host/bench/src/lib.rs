//! Measurements, each with its competitor in the same run: ratios hold on a shared machine where
//! seconds do not. [`report`] makes a page of them, [`energy`] computes their meaning for energy.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "names that say it need no comment")]

pub mod appliance;
pub mod compare;
mod counted;
pub mod energy;
pub mod host;
pub mod instructions;
pub mod irqs_off;
mod load;
mod not_measured;
pub mod report;
mod resample;
pub mod results;
mod seal;
pub mod spread;
mod start;
pub mod table;
pub mod targets;

pub use load::{Load, LoadRound};
pub use not_measured::NotMeasured;
pub use seal::{Cycle, Pair, Sealing};
pub use start::{OPENSBI, Start};

use std::path::PathBuf;

use poorwill_machine::Watcher;
use poorwill_machine::size::Bytes;

use crate::appliance::{ApplianceOptions, Audience};
use crate::compare::{CompareOptions, Size};
use crate::results::Results;

/// Options of measurements.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    pub firmware: PathBuf,
    /// Folder for disks; removed by the caller.
    pub folder: PathBuf,
    /// Number of sleeps and wakes.
    pub rounds: u32,
    /// Use fewer machines, for a short run.
    pub quick: bool,
    /// MiB of random bytes in the machine's memory.
    pub data_mib: u32,
    /// The guest for measurements of sealing.
    pub test_kernel: PathBuf,
    /// MiB of that guest's memory in use.
    pub sealed_mib: u32,
    /// The machines for the comparison.
    pub sizes: Vec<Size>,
    /// Harts of these machines.
    pub harts: u32,
}

/// A separate measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Instructions from power-on to the next stage, against OpenSBI's.
    Start,
    /// The bandwidth of a wake's load, against a plain read.
    Load,
    /// The cost of sealing, against plain images and the cipher alone.
    Seal,
    /// Instructions of a start, a sleep and a wake, as in the performance check.
    Instructions,
    /// An appliance's start: cold, from Linux's hibernation, from its snapshot.
    Snapshot,
    /// Sleep and wake, against cold boot, hibernation, QEMU's save and restore, and plain copies.
    Compare,
}

/// Runs one measurement, and adds its figures to `results`.
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
            tell("measuring the bandwidth of a wake's load");
            results.load = Some(load::measure(options, tell)?);
        }
        Part::Seal => {
            tell("measuring the cost of sealing");
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

/// An audience that only prints messages.
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

/// A result with figures for simple arithmetic.
#[cfg(test)]
pub(crate) fn sample() -> Results {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bench.json");
    Results::read(file.as_ref()).expect("the sample is well-formed")
}
