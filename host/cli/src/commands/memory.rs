//! `poorwill memory`: runs traces on models of memory.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use poorwill_bench::plot::{self, Bar};
use poorwill_bench::table::table;
use poorwill_bench::traces::open_loop::Load;
use poorwill_bench::traces::sweep::USUAL_REQUESTS;
use poorwill_bench::traces::{Found, Library, Run, parameters_of, run};
use poorwill_oc_pmem::{Fault, Machine, Parameters, TABLE, Time};
use serde_json::{Value, json};
use thiserror::Error;

use super::{comparators, rates, sweep};
use crate::progress;

/// Run traces on models of memory, and on DRAM.
///
/// The model is LightPC's memory controller, or a machine that its paper compares. See
/// docs/memory.md for the machines, the parameters and their sources.
#[derive(Args, Clone, Debug)]
#[command(after_help = format!("\
Examples:
  poorwill trace record sha512 && poorwill memory sha512
  poorwill memory sha512 --machine lightpc-b-dimm --set write=8.8 --set clock=1.6
  poorwill memory sha512 redis --machine all --plot machines.svg
  poorwill memory mine.trace --json
  poorwill memory sha512 --set dead=0
  poorwill memory --sweep build/sweep
  poorwill memory --comparators build/comparators
  poorwill memory --rates 10,50,100 --machine dram --set dimms=1

Machines: {}, or all of them
Parameters: {}

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.", Machine::names(), parameters()))]
pub(crate) struct Memory {
    /// Names of traces, which are their programs', or files
    #[arg(value_name = "TRACE", required_unless_present = "without_trace")]
    traces: Vec<String>,
    /// The machine beside DRAM, or `all`
    #[arg(long, value_name = "NAME", default_value = "lightpc")]
    machine: String,
    /// Draw the cycles in terms of DRAM's, as bars
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
    /// Set a parameter; the option may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Run the traces, or all recorded ones, over all swept parameters, and write results and plots
    /// into this folder
    #[arg(long, value_name = "FOLDER", group = "without_trace", conflicts_with_all = ["machine", "plot", "set", "json"])]
    sweep: Option<PathBuf>,
    /// Compare LightPC with machines that save what they keep, on the traces, or on all recorded ones, and
    /// write results and plots into this folder
    #[arg(long, value_name = "FOLDER", group = "without_trace", conflicts_with_all = ["machine", "plot", "set", "json"])]
    comparators: Option<PathBuf>,
    /// Give the machines random reads at these rates, in millions a second, and print their mean time
    #[arg(long, value_name = "RATE,...", group = "without_trace", value_delimiter = ',', value_parser = rates::rate, conflicts_with_all = ["traces", "plot"])]
    rates: Vec<f64>,
    /// Percent of the random requests that are writes
    #[arg(long, value_name = "PERCENT", requires = "rates", conflicts_with = "traces", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100))]
    writes: u8,
    /// Results of `poorwill bench compare --save`, for a measured image and Linux's hibernation
    #[arg(long, value_name = "JSON", requires = "comparators")]
    results: Option<PathBuf>,
    /// Requests of each trace with --sweep or --comparators, and of each rate with --rates
    #[arg(long, value_name = "N", requires = "without_trace", default_value_t = USUAL_REQUESTS, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
}

/// There is no such machine.
#[derive(Debug, Error)]
#[error("the model has no machine `{name}`; it has {known}, and `all`", known = Machine::names())]
struct NoMachine {
    name: String,
}

/// The names of all parameters.
fn parameters() -> String {
    let names: Vec<_> = TABLE.iter().map(|parameter| parameter.name).collect();
    names.join(", ")
}

/// What the machines make of a trace; the first one is DRAM.
struct OfTrace {
    trace: String,
    parameters: Parameters,
    runs: Vec<Run>,
}

/// The name of all machines.
const ALL: &str = "all";

impl Memory {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if let Some(folder) = &self.sweep {
            sweep::execute(folder, &self.traces, self.requests)?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(folder) = &self.comparators {
            let results = self.results.as_deref();
            comparators::execute(folder, &self.traces, self.requests, results)?;
            return Ok(ExitCode::SUCCESS);
        }
        let machines = self.machines()?;
        // A wrong parameter is named even if a trace is wrong, too.
        let mut checked = Parameters::default();
        self.set.iter().try_for_each(|set| checked.set(set))?;
        if !self.rates.is_empty() {
            rates::execute(&machines, &checked, &self.loads(), self.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        let library = Library::find()?;
        let all = self.traces.iter().map(|trace| {
            let found = library.named(trace)?;
            let header = found.open(|file| file)?.header().clone();
            let mut parameters = parameters_of(&header)?;
            self.set.iter().try_for_each(|set| parameters.set(set))?;
            let runs = machines
                .iter()
                .map(|one| watched(&found, *one, &parameters));
            Ok(OfTrace {
                trace: trace.clone(),
                runs: runs.collect::<anyhow::Result<_>>()?,
                parameters,
            })
        });
        let all = all.collect::<anyhow::Result<Vec<_>>>()?;
        if self.json {
            let all: Vec<_> = all.iter().map(OfTrace::json).collect();
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            all.iter().for_each(OfTrace::print);
        }
        if let Some(file) = &self.plot {
            let svg = plot::bars(&bars(&all), "cycles / DRAM's cycles")?;
            fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn loads(&self) -> Vec<Load> {
        let of = |rate| Load {
            rate,
            writes: self.writes,
            requests: self.requests,
        };
        self.rates.iter().copied().map(of).collect()
    }

    /// The machines to run, DRAM first.
    fn machines(&self) -> Result<Vec<Machine>, NoMachine> {
        if self.machine == ALL {
            return Ok(Machine::ALL.map(|(_, machine)| machine).to_vec());
        }
        match Machine::named(&self.machine) {
            None => Err(NoMachine {
                name: self.machine.clone(),
            }),
            Some(Machine::Dram) => Ok(vec![Machine::Dram]),
            Some(other) => Ok(vec![Machine::Dram, other]),
        }
    }
}

/// A bar for each trace on each machine but DRAM.
fn bars(all: &[OfTrace]) -> Vec<Bar> {
    let of_trace = |one: &OfTrace| {
        let runs = one.runs.iter().enumerate().skip(1);
        let bars = runs.map(|(place, run)| {
            let ratio = over(run, &one.runs);
            // Each machine has its own colour, that of a part.
            let mut parts = vec![0.0; place];
            parts[place - 1] = ratio;
            Bar {
                name: format!("{}, {}", one.trace, run.machine.name()),
                parts,
                ends: (ratio, ratio),
            }
        });
        bars.collect::<Vec<_>>()
    };
    all.iter().flat_map(of_trace).collect()
}

impl OfTrace {
    fn print(&self) {
        let (runs, parameters) = (&self.runs, &self.parameters);
        let heads = [
            "machine",
            "cycles",
            "over DRAM",
            "requests",
            "reads",
            "writes",
            "mean read, ns",
        ];
        let mut rows = table(heads, 1);
        for one in runs {
            let counts = &one.outcome.counts;
            rows.add_row([
                one.machine.name().to_owned(),
                one.outcome.cycles.to_string(),
                format!("{:.4}", over(one, runs)),
                one.outcome.requests.to_string(),
                counts.reads.to_string(),
                counts.writes.to_string(),
                format!("{:.1}", nanoseconds(one)),
            ]);
        }
        let instructions = runs.first().map_or(0, |one| one.outcome.instructions);
        let changed = changed(parameters);
        let changed = match &*changed {
            [] => "the base point".to_owned(),
            some => some.join(", "),
        };
        println!(
            "{}: {instructions} instructions, {changed}\n{rows}",
            self.trace
        );
        for one in runs {
            if let Some(fault) = one.outcome.fault() {
                println!("{}", fault_line(one.machine, fault));
            }
        }
    }

    fn json(&self) -> Value {
        let (runs, parameters) = (&self.runs, &self.parameters);
        let of = |one: &Run| {
            let counts = &one.outcome.counts;
            json!({
                "machine": one.machine.name(),
                "cycles": one.outcome.cycles,
                "over_dram": over(one, runs),
                "requests": one.outcome.requests,
                "reads": counts.reads,
                "writes": counts.writes,
                "mean_read_ns": nanoseconds(one),
                "conflicts": counts.conflicts,
                "rebuilt": counts.rebuilt,
                "regenerated": counts.regenerated,
                "contained": counts.contained,
                "first_contained_ns": counts.first_contained.map(to_nanoseconds),
                "from_row_buffer": counts.from_row_buffer,
                "row_hits": counts.row_hits,
                "moves": counts.moves,
                "programs": counts.programs,
                "flushes": counts.flushes,
            })
        };
        let of_parameter = |parameter| (parameter, parameters.text(parameter));
        let values = TABLE.iter().map(of_parameter);
        let values = values.map(|(one, text)| (one.name.to_owned(), Value::from(text)));
        json!({
            "trace": self.trace,
            "instructions": runs.first().map_or(0, |one| one.outcome.instructions),
            "parameters": values.collect::<serde_json::Map<_, _>>(),
            "machines": runs.iter().map(of).collect::<Vec<_>>(),
        })
    }
}

/// The parameters that differ from the base point, as `--set` takes them.
fn changed(parameters: &Parameters) -> Vec<String> {
    let changed = parameters.changed();
    changed
        .map(|one| format!("{}={}", one.name, parameters.text(one)))
        .collect()
}

/// A machine's time in terms of DRAM's, which is the first.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn over(one: &Run, runs: &[Run]) -> f64 {
    let first = runs.first().map_or(1, |first| first.outcome.time.0);
    one.outcome.time.0 as f64 / first.max(1) as f64
}

/// The mean time of a read.
fn nanoseconds(one: &Run) -> f64 {
    to_nanoseconds(one.outcome.read_time())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a run has fewer than 2^53 picoseconds"
)]
fn to_nanoseconds(time: Time) -> f64 {
    time.0 as f64 / 1000.0
}

/// What dead devices did on a machine.
fn fault_line(machine: Machine, fault: Fault) -> String {
    let name = machine.name();
    match fault {
        Fault::Regenerated { reads } => {
            format!("{name}: parity gave a dead device's half of {reads} reads; all data are right")
        }
        Fault::Contained { reads, first } => format!(
            "{name}: data are lost: {reads} reads returned the containment bit, the first one after {:.1} ns",
            to_nanoseconds(first)
        ),
    }
}

/// Runs the trace on a machine, with a progress bar.
fn watched(found: &Found, machine: Machine, parameters: &Parameters) -> anyhow::Result<Run> {
    let bytes = fs::metadata(&found.file)?.len();
    let bar = progress::bytes(machine.name(), bytes);
    let run = run(found, machine, parameters, |file| bar.wrap_read(file));
    bar.finish_and_clear();
    Ok(run?)
}
