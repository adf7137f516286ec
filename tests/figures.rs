//! `cargo test -p poorwill-tests --test figures` (`make figures-cut`): measures Stop and Go on
//! machines of the tiny guest, in instructions and as their time on LightPC. See `docs/cut.md`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_bench::cut::{
    Assumptions, Figures, Inputs, Load, MOST_GO, MOST_STOP, PARTS, Subject, count, ms, parts,
    written_back,
};
use poorwill_bench::plot::{self, Bar};
use poorwill_machine::{interrupt, paths};

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
    let inputs = Inputs::find(paths::firmware()?, paths::cache()?.join("tests"))?;
    let runs = number("POORWILL_ROUNDS")?.unwrap_or(RUNS as u64);
    let assumed = assumed()?;
    let subjects = [
        Subject::new(1, Load::Idle),
        Subject::new(8, Load::Idle),
        Subject::new(8, Load::Busy),
        Subject::new(8, Load::Nvme),
    ];
    let mut all = Vec::new();
    // The machines that the command line names, or all.
    let named: Vec<_> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_wanted = |subject: &Subject| named.is_empty() || named.contains(&subject.to_string());
    for subject in subjects.into_iter().filter(is_wanted) {
        let figures = count(&inputs, subject, usize::try_from(runs)?, &assumed)
            .with_context(|| format!("machine {subject}"))?;
        println!("figures: {figures}");
        all.push(figures);
    }
    let table = table(&all, assumed.access_ns)?;
    println!("{table}");
    let page = format!("{table}\n{}", legend());
    for (name, text) in [("figures-cut.md", page), ("figures-cut.svg", plot(&all)?)] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../build")
            .join(name);
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        println!("figures: {}", file.display());
    }
    for figures in &all {
        check(figures).with_context(|| format!("machine {}", figures.subject))?;
    }
    println!("test figures ... ok");
    Ok(())
}

fn number(name: &str) -> anyhow::Result<Option<u64>> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    text.map(|text| text.parse().with_context(|| format!("{name}={text}")))
        .transpose()
}

/// What is assumed of a board: `POORWILL_CLOCK` in GHz, `POORWILL_ACCESS_NS`.
fn assumed() -> anyhow::Result<Assumptions> {
    let mut assumed = Assumptions::default();
    let clock = std::env::var("POORWILL_CLOCK").ok();
    if let Some(clock) = clock.filter(|text| !text.is_empty()) {
        assumed.parameters.push(format!("clock={clock}"));
    }
    if let Some(ns) = number("POORWILL_ACCESS_NS")? {
        assumed.access_ns = ns;
    }
    Ok(assumed)
}

/// Milliseconds of a Stop whose caches have only dirty lines: at most the traced one, and the write-back
/// of all of them once more.
fn worst(figures: &Figures) -> anyhow::Result<f64> {
    let harts = figures.subject.harts.into();
    let dirty = written_back(harts, figures.lines * 64 / u64::from(figures.subject.harts))?;
    Ok(ms(figures.modelled.stop_ns() + dirty))
}

fn table(all: &[Figures], access_ns: u64) -> anyhow::Result<String> {
    let mut text = format!(
        "| machine | runs | Stop, instructions: median, worst | without caches | device accesses at {access_ns} ns | \
         instructions a cycle | lines written | Stop, ms | with all lines dirty, at most | Go, instructions | Go, ms |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in all {
        let modelled = &one.modelled;
        text += &format!(
            "| {} | {}{} | {}, {} | {} | {} | {:.2} | {} | {:.2} | {:.2} | {} | {:.2} |\n",
            one.subject,
            one.runs,
            if one.is_repeated { ", all alike" } else { "" },
            one.stop.0,
            one.stop.1,
            one.path(),
            one.accesses,
            modelled.stop.per_cycle(),
            modelled.stop.writes,
            ms(modelled.stop_ns()),
            worst(one)?,
            one.go,
            ms(modelled.go.settled_ns),
        );
    }
    Ok(text)
}

/// The text below the plot, with the meaning of its colours.
fn legend() -> String {
    let [quiet, commit, accesses, buffers] = PARTS;
    format!(
        "![Stop](figures-cut.svg)\n\nA traced Stop on LightPC's memory: blue is the time {quiet}, orange {commit}, \
         green {accesses}, pink what the {buffers} still write. The line reaches to all lines dirty.\n"
    )
}

/// A plot with bars of the parts of Stop, in ms.
fn plot(all: &[Figures]) -> anyhow::Result<String> {
    let bars = all.iter().map(|one| {
        Ok(Bar {
            name: one.subject.to_string(),
            parts: parts(&one.modelled).to_vec(),
            ends: (ms(one.modelled.stop_ns()), worst(one)?),
        })
    });
    let bars = bars.collect::<anyhow::Result<Vec<_>>>()?;
    plot::bars(&bars, "Stop, ms")
}

/// Checks the figures against the paper's bounds.
fn check(figures: &Figures) -> anyhow::Result<()> {
    let most = match figures.subject.load {
        Load::Idle => IDLE,
        Load::Busy => BUSY,
        Load::Nvme => HOLD_UP,
    };
    let (stop, most) = (worst(figures)?, most.as_secs_f64() * 1000.0);
    let is_alike = figures.is_repeated || figures.subject.load == Load::Nvme;
    ensure!(is_alike, "runs differ although no disk takes part");
    ensure!(
        figures.path() <= MOST_STOP || figures.subject.load == Load::Nvme,
        "Stop takes {} instructions without caches, more than {MOST_STOP}",
        figures.path()
    );
    ensure!(stop <= most, "Stop takes {stop:.2} ms, more than {most:.2}");
    ensure!(
        figures.go <= MOST_GO,
        "Go takes {} instructions, more than {MOST_GO}",
        figures.go
    );
    Ok(())
}
