//! `cargo test -p poorwill-tests --test figures` (`make figures-cut`): measures Stop and Go on
//! machines of the tiny guest, in instructions and as the time of a board. See `docs/cut.md`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_bench::report::plot::{self, Bar};
use poorwill_machine::interrupt;
use poorwill_tests::Setup;
use poorwill_tests::figures::{Costs, Figures, Load, MOST_GO, MOST_STOP, Subject, measure};

/// Cuts of each machine, unless `POORWILL_ROUNDS` gives another number.
const RUNS: usize = 20;

/// The hold-up, and the paper's times of Stop on an idle and on a busy machine.
const IDLE: Duration = Duration::from_micros(8600);
const BUSY: Duration = Duration::from_micros(10_500);
const HOLD_UP: Duration = Duration::from_millis(16);

fn main() -> anyhow::Result<()> {
    // cargo asks each test program for a list of its tests. This one has one test.
    if std::env::args().any(|word| word == "--list") {
        println!("figures: test");
        return Ok(());
    }
    interrupt::install()?;
    let setup = Setup::find();
    let runs = number("POORWILL_ROUNDS")?.unwrap_or(RUNS as u64);
    let costs = costs()?;
    let subject = |harts, load| Subject { harts, load };
    let subjects = [
        subject(1, Load::Idle),
        subject(8, Load::Idle),
        subject(8, Load::Busy),
        subject(8, Load::Nvme),
    ];
    let mut all = Vec::new();
    // The machines that the command line names, or all.
    let named: Vec<_> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_wanted = |subject: &Subject| named.is_empty() || named.contains(&subject.to_string());
    for subject in subjects.into_iter().filter(is_wanted) {
        let figures = measure(&setup, subject, usize::try_from(runs)?)
            .with_context(|| format!("machine {subject}"))?;
        println!("figures: {figures}");
        all.push(figures);
    }
    let table = table(&all, &costs);
    println!("{table}");
    let page = format!("{table}\n{LEGEND}");
    for (name, text) in [
        ("figures-cut.md", page),
        ("figures-cut.svg", plot(&all, &costs)?),
    ] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../build")
            .join(name);
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        println!("figures: {}", file.display());
    }
    for figures in &all {
        check(figures, &costs).with_context(|| format!("machine {}", figures.subject))?;
    }
    println!("test figures ... ok");
    Ok(())
}

fn number(name: &str) -> anyhow::Result<Option<u64>> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    text.map(|text| text.parse().with_context(|| format!("{name}={text}")))
        .transpose()
}

/// The times of a board: `POORWILL_CLOCK` in GHz, `POORWILL_ACCESS_NS`, `POORWILL_LINE_NS`.
fn costs() -> anyhow::Result<Costs> {
    let mut costs = Costs::default();
    if let Some(clock) = std::env::var("POORWILL_CLOCK")
        .ok()
        .filter(|text| !text.is_empty())
    {
        costs.clock = clock.parse()?;
    }
    for (name, cost) in [
        ("POORWILL_ACCESS_NS", &mut costs.access),
        ("POORWILL_LINE_NS", &mut costs.line),
    ] {
        if let Some(ns) = number(name)? {
            *cost = Duration::from_nanos(ns);
        }
    }
    Ok(costs)
}

fn table(all: &[Figures], costs: &Costs) -> String {
    let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1000.0);
    let mut text = format!(
        "| machine | runs | Stop, instructions: median, worst | without caches | device accesses | \
         lines at {} ns | Stop, ms | Go, instructions | Go, ms |\n|---|---|---|---|---|---|---|---|---|\n",
        costs.line.as_nanos()
    );
    for one in all {
        text += &format!(
            "| {} | {}{} | {}, {} | {} | {} | {} | {} | {} | {} |\n",
            one.subject,
            one.runs,
            if one.is_repeated { ", all alike" } else { "" },
            one.stop.0,
            one.stop.1,
            one.path(),
            one.accesses,
            one.lines,
            ms(costs.stop(one)),
            one.go,
            ms(costs.go(one)),
        );
    }
    text
}

/// The text below the plot, with the meaning of its colours.
const LEGEND: &str = "![Stop](figures-cut.svg)\n\nStop in the worst run, with a line from the median's end to its own: \
    blue are the instructions without caches, orange the caches' displacement, green the device \
    accesses, pink the lines.\n";

/// A plot with bars of the parts of Stop, in ms.
fn plot(all: &[Figures], costs: &Costs) -> anyhow::Result<String> {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let bars = all.iter().map(|one| {
        let parts = costs.stop_parts(one).map(ms);
        let most: f64 = parts.iter().sum();
        let spread = costs.clock.time_of(one.stop.1) - costs.clock.time_of(one.stop.0);
        Bar {
            name: one.subject.to_string(),
            parts: parts.to_vec(),
            ends: (most - ms(spread), most),
        }
    });
    let bars: Vec<_> = bars.collect();
    plot::bars(&bars, "Stop, ms")
}

/// Checks the figures against the paper's bounds.
fn check(figures: &Figures, costs: &Costs) -> anyhow::Result<()> {
    let stop = costs.stop(figures);
    let most = match figures.subject.load {
        Load::Idle => IDLE,
        Load::Busy => BUSY,
        Load::Nvme => HOLD_UP,
    };
    let is_alike = figures.is_repeated || figures.subject.load == Load::Nvme;
    ensure!(is_alike, "runs differ although no disk takes part");
    ensure!(
        figures.path() <= MOST_STOP || figures.subject.load == Load::Nvme,
        "Stop takes {} instructions without caches, more than {MOST_STOP}",
        figures.path()
    );
    ensure!(stop <= most, "Stop takes {stop:?}, more than {most:?}");
    ensure!(
        figures.go <= MOST_GO,
        "Go takes {} instructions, more than {MOST_GO}",
        figures.go
    );
    Ok(())
}
