//! `poorwill memory --sweep`: runs all recorded traces over all swept parameters.

use std::fs;
use std::path::Path;

use anyhow::Context;
use poorwill_bench::table::table;
use poorwill_bench::traces::sweep::footprint::{self, Footprint, are_within, footprints};
use poorwill_bench::traces::sweep::lifetimes::{lifetimes, rounds};
use poorwill_bench::traces::sweep::{
    Figures, Means, Plot, Sweep, Swept, plots, runs, summary, sweep,
};
use poorwill_bench::traces::{Library, PROGRAMS, TracesError};
use serde_json::{Value, json};
use thiserror::Error;

use crate::progress;

/// No trace of the guest's programs is there.
#[derive(Debug, Error)]
#[error("there is no trace: record all programs with `poorwill trace record all`")]
struct NoTrace;

/// Sweeps the named traces, or all recorded ones, and writes results and plots into the folder.
pub(super) fn execute(folder: &Path, names: &[String], requests: u64) -> anyhow::Result<()> {
    let traces = traces(names)?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let bar = progress::steps(runs(traces.len()) as u64);
    bar.set_message("running traces over all parameters");
    let sweep = sweep(&traces, requests, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let figures = summary(&sweep);
    write(folder, "sweep.json", &json(&sweep, requests)?)?;
    for Plot { file, svg } in plots(&sweep)? {
        write(folder, &file, &svg)?;
    }
    let footprints = footprints()?;
    let Plot { file, svg } = footprint::plot(&footprints)?;
    write(folder, &file, &svg)?;
    let text = format!(
        "{}\n\n{}\n\n{}\n",
        rows(&figures),
        of_footprints(&footprints),
        of_lifetimes()
    );
    write(folder, "sweep.md", &text)?;
    println!("{text}\nResults and plots: {}", folder.display());
    Ok(())
}

/// The traces to sweep. Without names, a program that was not recorded is left out by name.
pub(super) fn traces(names: &[String]) -> anyhow::Result<Vec<Swept>> {
    let library = Library::find()?;
    let wanted: Vec<String> = match names {
        [] => PROGRAMS.iter().map(|one| one.name.to_owned()).collect(),
        some => some.to_vec(),
    };
    let mut traces = Vec::new();
    for name in wanted {
        let found = match library.named(&name) {
            Err(error @ TracesError::NotRecorded { .. }) if names.is_empty() => {
                eprintln!("poorwill: left out: {error}");
                continue;
            }
            found => found?,
        };
        traces.push(Swept {
            header: found.open(|file| file)?.header().clone(),
            name,
            found,
        });
    }
    if traces.is_empty() {
        return Err(NoTrace.into());
    }
    Ok(traces)
}

pub(super) fn write(folder: &Path, file: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(file);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A row for each point.
fn rows(figures: &[Figures]) -> String {
    let heads = [
        "point",
        "LightPC / DRAM",
        "least",
        "most",
        "B-group / LightPC",
        "B-dimm",
        "B-queue",
        "its reads: group",
        "dimm",
        "queue",
        "STREAM",
        "energy",
    ];
    let mut rows = table(heads, 1);
    let text = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    let mean = |means: Option<Means>| text(means.map(|means| means.mean));
    for one in figures {
        let mut cells = vec![
            one.point.name(),
            mean(one.light),
            text(one.light.map(|means| means.least)),
            text(one.light.map(|means| means.most)),
        ];
        cells.extend(one.readings.map(mean));
        cells.extend(one.latencies.map(mean));
        cells.extend([one.stream, one.energy].map(mean));
        rows.add_row(cells);
    }
    rows.to_string()
}

/// Figure 2b: a row for each footprint, and what lies within the sweep.
fn of_footprints(all: &[Footprint]) -> String {
    let heads = [
        "footprint, bytes",
        "DIMM's read, ns",
        "write",
        "DRAM's read",
        "write",
        "read / PRAM's",
        "PRAM's write / write",
    ];
    let mut rows = table(heads, 0);
    for one in all {
        let times = [one.dimm[0], one.dimm[1], one.dram[0], one.dram[1]];
        let mut cells = vec![one.bytes.to_string()];
        cells.extend(times.map(|time| format!("{time:.1}")));
        cells.extend([one.reads(), one.writes()].map(|ratio| format!("{ratio:.2}")));
        rows.add_row(cells);
    }
    let (read, [least, most]) = footprint::PAPER;
    let said = are_within(all).map(|is_within| {
        if is_within {
            "within"
        } else {
            "**not** within"
        }
    });
    format!(
        "{rows}\nLightPC's {read} for reads: {} the sweep; {least} to {most} for writes: {}.",
        said[0], said[1]
    )
}

/// Lifetimes in per cent of what all slots take together.
fn of_lifetimes() -> String {
    let mut heads = vec!["levelling".to_owned(), "attack".to_owned()];
    heads.extend(rounds().map(|rounds| format!("slot endures {rounds} rounds, %")));
    let mut rows = table(heads, 2);
    for one in lifetimes() {
        let mut cells = vec![one.levelling.to_owned(), one.attack.to_owned()];
        cells.extend(one.shares.map(|share| format!("{:.2}", 100.0 * share)));
        rows.add_row(cells);
    }
    rows.to_string()
}

fn json(sweep: &Sweep, requests: u64) -> anyhow::Result<String> {
    let runs = sweep.all().map(|(trace, point, machine, outcome)| {
        json!({
            "trace": trace,
            "point": point.name(),
            "machine": machine.name(),
            "cycles": outcome.cycles,
            "time_ns": outcome.time.0 / 1000,
            "requests": outcome.requests,
            "reads": outcome.counts.reads,
            "writes": outcome.counts.writes,
            "mean_read_ps": outcome.read_time().0,
        })
    });
    let runs: Vec<Value> = runs.collect();
    let all = json!({ "requests_of_each_trace": requests, "runs": runs });
    Ok(serde_json::to_string_pretty(&all)?)
}
