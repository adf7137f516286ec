//! `poorwill memory --comparators`: LightPC beside machines that save what they keep.

use std::fs;
use std::path::Path;

use anyhow::Context;
use poorwill_bench::results::Results;
use poorwill_bench::table::table;
use poorwill_bench::traces::comparators::{
    Compared, NAMES, PAPER, POINTS, Plot, Share, Summary, compare, plots, summaries,
};
use serde_json::{Value, json};

use super::sweep::{traces, write};
use crate::progress;

/// What a file of `bench --save` says of a system's image.
#[derive(Clone, Debug, Default)]
struct Measured {
    /// Bytes of an image that a sleep saved (mode `persist`).
    image: Option<u64>,
    /// Linux's hibernation.
    hibernation: Option<String>,
}

/// The command that measures an image and a hibernation.
const REMEDY: &str = "`poorwill bench compare --save compare.json`, then `--results compare.json`";

impl Measured {
    fn of(results: Option<&Path>) -> anyhow::Result<Self> {
        let Some(file) = results else {
            return Ok(Measured::default());
        };
        let results = Results::read(file)?;
        let Some(least) = results.compare.as_ref().and_then(|compare| compare.least()) else {
            return Ok(Measured::default());
        };
        let image = least.sleeps.iter().map(|sleep| sleep.saved_bytes).max();
        let hibernation = least.hibernations.first().map(|one| {
            format!(
                "Linux's hibernation, measured: {} MiB in use, {:.0} ms to the power-off, {:.0} ms from the power-on",
                one.used_bytes >> 20,
                one.save_ms,
                one.total_ms
            )
        });
        Ok(Measured { image, hibernation })
    }

    /// What was measured, or how to measure it.
    fn lines(&self) -> Vec<String> {
        let image = match self.image {
            Some(bytes) => format!("The measured image has {} MiB.", bytes >> 20),
            None => format!("No image was measured: {REMEDY}."),
        };
        let hibernation = match &self.hibernation {
            Some(text) => format!("{text}."),
            None => format!("No hibernation was measured: {REMEDY}."),
        };
        vec![image, hibernation]
    }
}

/// Compares on the named traces, or on all recorded ones, and writes results and plots into the folder.
pub(super) fn execute(
    folder: &Path,
    names: &[String],
    requests: u64,
    results: Option<&Path>,
) -> anyhow::Result<()> {
    let measured = Measured::of(results)?;
    let traces = traces(names)?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let bar = progress::steps((traces.len() * POINTS.len()) as u64);
    bar.set_message("comparing with machines that save");
    let all = compare(&traces, requests, measured.image, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let summaries = summaries(&all);
    for Plot { file, svg } in plots(&all, &summaries)? {
        write(folder, &file, &svg)?;
    }
    let text = format!(
        "{}\n\n{}\n\n{}",
        means(&summaries),
        programs(&all),
        measured.lines().join("\n")
    );
    write(folder, "comparators.json", &json(&all, requests)?)?;
    write(folder, "comparators.md", &text)?;
    println!(
        "{text}\nAll times are modelled. Results and plots: {}",
        folder.display()
    );
    Ok(())
}

/// A share's whole, bold if it is outside its bound.
fn judged(summary: &Summary, share: usize) -> String {
    let value = format!("{:.2}", summary.shares[share].all());
    match summary.is_within(share) {
        true => value,
        false => format!("**{value}**"),
    }
}

/// A row for each point, and the paper's.
fn means(summaries: &[Summary]) -> String {
    let heads = [
        "point",
        NAMES[0],
        "measured image",
        NAMES[1],
        NAMES[2],
        "in order",
        "ms of a save: SysPC",
        "image",
        "S-CheckPC",
        "ns: A-CheckPC",
    ];
    let mut rows = table(heads, 1);
    let mut paper = vec!["LightPC's paper".to_owned()];
    let [sys, by_second, by_end] = PAPER.map(|value| value.to_string());
    paper.extend([sys, String::new(), by_second, by_end, "yes".to_owned()]);
    paper.resize(heads.len(), String::new());
    rows.add_row(paper);
    for summary in summaries {
        let image = |of: fn(&Share) -> String| summary.image.as_ref().map(of).unwrap_or_default();
        let order = if summary.is_in_order() {
            "yes"
        } else {
            "**no**"
        };
        let save = |share: usize| summary.shares[share].save_ms;
        rows.add_row([
            POINTS[summary.point].name(),
            judged(summary, 0),
            image(|share| format!("{:.2}", share.all())),
            judged(summary, 1),
            judged(summary, 2),
            order.to_owned(),
            format!("{:.0}", save(0)),
            image(|share| format!("{:.0}", share.save_ms)),
            format!("{:.1}", save(1)),
            format!("{:.0}", 1e6 * save(2)),
        ]);
    }
    rows.to_string()
}

/// A row for each trace, at the points that change the clock alone.
fn programs(all: &[Compared]) -> String {
    let heads = [
        "trace",
        "point",
        NAMES[0],
        NAMES[1],
        NAMES[2],
        "MiB of S-CheckPC's save",
        "checkpoints / 1 M instructions",
        "lines of each",
    ];
    let mut rows = table(heads, 2);
    for one in all {
        let point = &POINTS[one.point];
        if point.sets.len() > 1 || point.copying != 1 {
            continue;
        }
        let [sys, by_second, by_end] = one.shares.map(|share| format!("{:.3}", share.all()));
        rows.add_row([
            one.trace.clone(),
            point.name(),
            sys,
            by_second,
            by_end,
            format!("{:.1}", one.pages_mib()),
            format!("{:.0}", one.checkpoints),
            format!("{:.1}", one.lines),
        ]);
    }
    rows.to_string()
}

fn json(all: &[Compared], requests: u64) -> anyhow::Result<String> {
    let of_share = |share: &Share| {
        json!({
            "execution": share.execution,
            "control": share.control,
            "save_ms": share.save_ms,
        })
    };
    let runs = all.iter().map(|one| {
        let shares = NAMES.iter().zip(&one.shares);
        let shares = shares.map(|(name, share)| ((*name).to_owned(), of_share(share)));
        json!({
            "trace": one.trace,
            "point": POINTS[one.point].name(),
            "over_lightpc": shares.collect::<serde_json::Map<_, _>>(),
            "measured_image": one.image.as_ref().map(of_share),
            "pages": one.pages,
            "checkpoints_per_million_instructions": one.checkpoints,
            "lines_of_a_checkpoint": one.lines,
        })
    });
    let runs: Vec<Value> = runs.collect();
    let all = json!({ "modelled": true, "requests_of_each_trace": requests, "runs": runs });
    Ok(serde_json::to_string_pretty(&all)?)
}
