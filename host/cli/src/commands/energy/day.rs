//! `poorwill energy --day`: a day of wakes, with the strong cores and with a weak one.

use std::path::Path;

use anyhow::Context;
use poorwill_bench::energy::account::digits;
use poorwill_bench::energy::day::{Day, Energy as OfDay};
use poorwill_bench::results::{Results, write_whole};
use poorwill_bench::table::table;
use serde_json::json;

/// Ratios that are shown beside the measured one: of native code, the slides' two, and others.
const SHOWN: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// Printed above the figures.
const MODELLED: &str = "Energy is modelled: powers, with their sources below, multiplied by times. No power was measured.";

/// The slides' own savings, in percent: of suspend and resume, and of all energy.
const SLIDES: &str =
    "The slides estimate 70 % of the energy of suspend and resume, and 30 % of all.";

/// Parses a ratio.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().map_err(|error| error.to_string())?;
    match ratio.is_finite() && ratio > 0.0 {
        true => Ok(ratio),
        false => Err("give a number above zero".into()),
    }
}

/// What is asked about a day.
pub(super) struct Asked<'a> {
    /// Results of `poorwill bench executor --save`.
    pub(super) measured: Option<&'a Path>,
    /// The ratio in place of the measured one.
    pub(super) ratio: Option<f64>,
    /// The plot's file.
    pub(super) plot: Option<&'a Path>,
    pub(super) json: bool,
}

/// Computes the day in `file`, and prints and draws it.
pub(super) fn show(file: &Path, asked: &Asked<'_>) -> anyhow::Result<()> {
    let day = Day::read(file)?;
    let known = known_ratio(asked)?;
    let source = known.as_ref().map(|(source, _)| source.as_str());
    let ratio = known.as_ref().map(|(_, ratio)| *ratio);
    if let Some(plot) = asked.plot {
        write_whole(plot, day.plot(ratio)?.as_bytes())
            .with_context(|| format!("cannot write the plot {}", plot.display()))?;
        eprintln!("energy: the plot is in {}", plot.display());
    }
    if asked.json {
        print_json(&day, source, ratio)?;
    } else {
        print_day(&day, source, ratio);
    }
    Ok(())
}

/// The weak core's ratio, and its source.
fn known_ratio(asked: &Asked<'_>) -> anyhow::Result<Option<(String, f64)>> {
    if let Some(ratio) = asked.ratio {
        return Ok(Some(("--ratio".to_owned(), ratio)));
    }
    let Some(file) = asked.measured else {
        return Ok(None);
    };
    let results = Results::read(file)?;
    let measured = results.executor.and_then(|executor| executor.ratio());
    let (case, ratio) = measured.with_context(|| {
        format!(
            "{} has no warm halves of a weak core: measure them with `poorwill bench executor \
             --save FILE`, or give --ratio",
            file.display()
        )
    })?;
    let source = format!("measured, both halves, warm, {case}: {}", file.display());
    Ok(Some((source, ratio)))
}

/// The ratios that are shown, in order.
fn shown(ratio: Option<f64>) -> Vec<f64> {
    let mut all: Vec<f64> = SHOWN.into_iter().chain(ratio).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

fn print_json(day: &Day, source: Option<&str>, ratio: Option<f64>) -> serde_json::Result<()> {
    let [halves, whole] = day.with_strong();
    let energies: Vec<OfDay> = shown(ratio)
        .into_iter()
        .map(|ratio| day.with_weak(ratio))
        .collect();
    let text = json!({
        "energy": "modelled",
        "title": day.title,
        "publication": day.publication,
        "wakes": day.count(),
        "strong_joules": whole,
        "strong_halves_joules": halves,
        "task_joules": day.task_joules(),
        "ratio": ratio,
        "ratio_source": source,
        "weak": ratio.map(|ratio| day.with_weak(ratio)),
        "break_even_ratio": day.break_even(),
        "by_ratio": energies,
    });
    println!("{}", serde_json::to_string_pretty(&text)?);
    Ok(())
}

fn print_day(day: &Day, source: Option<&str>, ratio: Option<f64>) {
    println!("{}\n{}\n{MODELLED}\n", day.title, day.about.trim());
    let [halves, whole] = day.with_strong();
    println!(
        "{} wakes. With the strong cores: {} J a day, of which suspend and resume take {} J ({:.0} %).",
        day.count(),
        digits(whole),
        digits(halves),
        100.0 * halves / whole
    );
    match (ratio, source) {
        (Some(ratio), Some(source)) => {
            let weak = day.with_weak(ratio);
            println!(
                "With the weak core at X = {} ({source}): {} J, so it saves {:.1} % of suspend and resume, \
                 and {:.1} % of the day.",
                digits(ratio),
                digits(weak.joules),
                100.0 * weak.halves_saved,
                100.0 * weak.saved
            );
        }
        _ => println!("X is not known: give --measured or --ratio."),
    }
    println!("{SLIDES}");
    println!("{}\n", break_even(day));
    println!("By X, the weak core's instructions for each one of the OS:");
    let heads = [
        "X",
        "J a day",
        "saved, %",
        "of suspend and resume, %",
        "s of suspend and resume",
    ];
    let mut table = table(heads, 0);
    for energy in shown(ratio).into_iter().map(|ratio| day.with_weak(ratio)) {
        table.add_row([
            digits(energy.ratio),
            digits(energy.joules),
            format!("{:.1}", 100.0 * energy.saved),
            format!("{:.1}", 100.0 * energy.halves_saved),
            digits(energy.halves_seconds),
        ]);
    }
    println!("{table}");
    println!("\nSources: {}", day.publication);
    for (place, figure) in day.figures() {
        println!("  {place} = {}: {}", figure.value, figure.source);
    }
}

fn break_even(day: &Day) -> String {
    let even = day.break_even();
    if even <= 0.0 {
        return "Break-even: none. The weak core's waits alone cost more than the strong cores."
            .into();
    }
    format!(
        "Break-even: X = {}. A weak core with more instructions for each one of the OS costs more than \
         the strong cores.",
        digits(even)
    )
}
