//! Measurements, each beside its limit and in the same run: ratios hold on a
//! shared machine where seconds do not. Beside them the page that is made of them
//! ([`report`]), and what they mean for energy ([`energy`]).
#![forbid(unsafe_code)]

pub mod appliance;
pub mod compare;
mod counted;
pub mod energy;
pub mod host;
pub mod instructions;
pub mod irqs_off;
mod load;
mod not_had;
pub mod report;
mod resample;
pub mod results;
mod seal;
pub mod spread;
mod start;
pub mod table;
pub mod targets;

pub use load::{Load, LoadRound};
pub use not_had::NotHad;
pub use seal::{Cycle, Pair, Sealing};
pub use start::{OPENSBI, Start};

use std::path::PathBuf;

use poorwill_machine::Watcher;
use poorwill_machine::size::Bytes;

use crate::appliance::{ApplianceOptions, Audience};
use crate::compare::{CompareOptions, Size};
use crate::results::Results;

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

/// A result with figures that are easy to reckon with.
#[cfg(test)]
pub(crate) fn sample() -> Results {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bench.json");
    Results::read(file.as_ref()).expect("the sample is well-formed")
}
