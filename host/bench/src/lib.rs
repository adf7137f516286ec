//! Measurements of Poorwill, each with its competitor in the same run. On a shared host ratios are
//! stable, and seconds are not. [`report`] makes a page of the figures, and [`energy`] computes
//! energy from them.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "names that say it need no comment")]

pub mod appliance;
pub mod compare;
mod counted;
mod counters;
pub mod cut;
pub mod domains;
pub mod energy;
pub mod executor;
pub mod host;
pub mod instructions;
pub mod irqs_off;
mod mean;
mod not_measured;
mod options;
pub mod plot;
pub mod report;
mod resample;
pub mod results;
mod seal;
pub mod spread;
mod start;
pub mod table;
pub mod targets;
pub mod traces;

pub use counters::CounterRead;
pub use not_measured::NotMeasured;
pub use options::BenchOptions;
pub use seal::{Cycle, Pair, Sealing};
pub use start::{OPENSBI, Start};

use poorwill_machine::Watcher;
use poorwill_machine::size::Bytes;

use crate::appliance::{ApplianceOptions, Audience};
use crate::compare::CompareOptions;
use crate::cut::{CutOptions, Inputs};
use crate::results::Results;

/// A measurement that can be run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Instructions from power-on to the next stage, compared with OpenSBI's.
    Start,
    /// Instructions of emulated reads of counters, compared with OpenSBI's.
    Counters,
    /// The cost of sealing, compared with plain images and with the cipher alone.
    Seal,
    /// Instructions of a start, a sleep and a wake, as in the performance check.
    Instructions,
    /// An appliance's start: cold, from Linux's hibernation, and from its snapshot.
    Snapshot,
    /// A critical guest and a Linux in domains: their wakes, compared with cold boots and with a
    /// Linux alone.
    Domains,
    /// Stop and Go of machines with persistent memory, on LightPC's memory controller.
    Cut,
    /// A weak core: its instructions for each one of the kernel around a sleep, times of devices,
    /// accesses and waits.
    Executor,
    /// Sleep and wake, compared with cold boot, hibernation, QEMU's save and restore, and plain
    /// copies.
    Compare,
}

/// Runs one measurement, and adds its figures to `results`.
///
/// # Errors
///
/// The error of the measurement; `results` has the figures up to it.
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
        Part::Counters => {
            tell("counting instructions of emulated reads of counters");
            results.counters = counters::measure(options)?;
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
        Part::Domains => {
            tell("waking domains, and a Linux alone");
            domains::measure(options, &mut results.domains, tell)?;
        }
        Part::Executor => {
            executor::measure(options, &mut results.executor, tell)?;
        }
        Part::Instructions => {
            results.instructions = instructions::measure(options, tell)?;
        }
        Part::Cut => {
            let options = CutOptions {
                inputs: Inputs::find(options.firmware.clone(), options.folder.clone())?,
                subjects: cut::subjects(options.quick),
                assumed: options.assumed.clone(),
            };
            cut::measure(&options, &mut results.cut, tell)?;
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

/// An audience that only prints messages, and shows no console.
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

/// Results with round figures, for tests.
#[cfg(test)]
pub(crate) fn sample() -> Results {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bench.json");
    Results::read(file.as_ref()).expect("the sample is well-formed")
}
