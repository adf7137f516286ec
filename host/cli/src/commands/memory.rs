//! `poorwill memory`: runs a trace on models of memory.

use std::fs;
use std::process::ExitCode;

use clap::Args;
use poorwill_bench::table::table;
use poorwill_bench::traces::{Found, Library, Run, parameters_of, run};
use poorwill_oc_pmem::{Machine, Parameters, TABLE};
use serde_json::{Value, json};
use thiserror::Error;

use crate::progress;

/// Run a trace on a model of memory, and on DRAM.
///
/// The model is LightPC's memory controller, or a machine that its paper compares. See
/// docs/memory.md for the machines, the parameters and their sources.
#[derive(Args, Clone, Debug)]
#[command(after_help = format!("\
Examples:
  poorwill trace record sha512 && poorwill memory sha512
  poorwill memory sha512 --machine lightpc-b-dimm --set write=8.8 --set clock=1.6
  poorwill memory mine.trace --json

Machines: {}
Parameters: {}

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.", Machine::names(), parameters()))]
pub(crate) struct Memory {
    /// A trace's name, which is its program's, or a file
    #[arg(value_name = "TRACE")]
    trace: String,
    /// The machine beside DRAM
    #[arg(long, value_name = "NAME", default_value = "lightpc")]
    machine: String,
    /// Set a parameter; the option may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// There is no such machine.
#[derive(Debug, Error)]
#[error("the model has no machine `{name}`; it has {known}", known = Machine::names())]
struct NoMachine {
    name: String,
}

/// The names of all parameters.
fn parameters() -> String {
    let names: Vec<_> = TABLE.iter().map(|parameter| parameter.name).collect();
    names.join(", ")
}

impl Memory {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let machine = Machine::named(&self.machine).ok_or_else(|| NoMachine {
            name: self.machine.clone(),
        })?;
        // A wrong parameter is named even if the trace is wrong, too.
        let mut checked = Parameters::default();
        self.set.iter().try_for_each(|set| checked.set(set))?;
        let found = Library::find()?.named(&self.trace)?;
        let header = found.open(|file| file)?.header().clone();
        let mut parameters = parameters_of(&header)?;
        self.set.iter().try_for_each(|set| parameters.set(set))?;
        let machines = match machine {
            Machine::Dram => vec![machine],
            other => vec![Machine::Dram, other],
        };
        let runs = machines
            .into_iter()
            .map(|one| watched(&found, one, &parameters));
        let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
        if self.json {
            println!("{}", self.as_json(&runs, &parameters)?);
        } else {
            self.print(&runs, &parameters);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, runs: &[Run], parameters: &Parameters) {
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
    }

    fn as_json(&self, runs: &[Run], parameters: &Parameters) -> serde_json::Result<String> {
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
        serde_json::to_string_pretty(&json!({
            "trace": self.trace,
            "instructions": runs.first().map_or(0, |one| one.outcome.instructions),
            "parameters": values.collect::<serde_json::Map<_, _>>(),
            "machines": runs.iter().map(of).collect::<Vec<_>>(),
        }))
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
#[expect(clippy::cast_precision_loss, reason = "picoseconds of one read")]
fn nanoseconds(one: &Run) -> f64 {
    one.outcome.read_time().0 as f64 / 1000.0
}

/// Runs the trace on a machine, with a progress bar.
fn watched(found: &Found, machine: Machine, parameters: &Parameters) -> anyhow::Result<Run> {
    let bytes = fs::metadata(&found.file)?.len();
    let bar = progress::bytes(machine.name(), bytes);
    let run = run(found, machine, parameters, |file| bar.wrap_read(file));
    bar.finish_and_clear();
    Ok(run?)
}
