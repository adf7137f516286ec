//! `cargo test -p poorwill-tests --test figures-domains` (`make figures-domains`): the critical
//! guest's figures beside a hostile domain and beside a stock Linux, in the fair time base. It
//! shows the firmware's interference, and not that of caches or of a bus. `POORWILL_FRAMES=300` is
//! another number of frames. The words `hostile`, `linux`, `off` and `crowd` choose a part. The
//! machines are rows of `figures.toml`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use poorwill_bench::plot::{self, Bar};
use poorwill_machine::interrupt;
use poorwill_tests::{
    Cores, Entries, Host, Late, Others, Part, Prepared, Seen, Setup, expand, is_chosen,
    longest_refusal, number, read_plan, run_trial, wakes,
};

/// Frames beside each domain, unless `POORWILL_FRAMES` gives another number.
const FRAMES: usize = 2000;

/// The most that 99.9 % of the tasks may be later than beside an idle domain, in nanoseconds.
const MOST_LATER: u64 = 1000;

/// The most that a refused sleep of the machine may take longer beside seven domains that park and
/// wake without a pause, in nanoseconds; and the refusals.
const MOST_REFUSAL: u64 = 5000;
const REFUSALS: u32 = 300;

/// The most instructions from a wake event to the first frame.
const MOST_TO_FRAME: u64 = 50_000;

/// The most instructions from the power-on to the first frame of a guest that wakes; and the percentage
/// by which Linux's memory in use may change them.
const MOST_FROM_POWER_ON: u64 = 13_200_000;
const MOST_CHANGE: u64 = 1;

/// The part beside an idle domain in each group of rows, whose names begin with the group's.
const IDLE: [(&str, &str); 3] = [
    ("hostile", "idle"),
    ("linux", "Linux idle"),
    ("off", "off: idle"),
];

/// The parts whose Linux has 0.25 GiB in use, and 1.5 GiB.
const IN_USE: [&str; 2] = ["off: loaded", "off: 1.5 GiB"];

const HEAD: &str = "| beside | frames | missed | heartbeat late, ns | control late, us | \
    own calls | own timers | other entries | to the first frame | from power-on to the first frame |\n\
    |---|---|---|---|---|---|---|---|---|---|\n";

const LEGEND: &str = "
The first five domains are the hostile guest: it does nothing, attacks, floods the console, parks \
and wakes, or ends. The others are a stock Linux. With the power off, it boots and idles; is loaded, \
with 0.25 GiB in use, and resumes; ends, since the end of its data is damaged; starts cold; and is \
loaded with 1.5 GiB in use. Late: at 99.9 % and at most, more than the least late frame. Entries: \
of machine mode, on the critical guest's harts. To the first frame: the most instructions from the \
wake event. From power-on: instructions at a wake of the machine.

![Lateness of heartbeats](figures-domains.svg)
";

fn main() -> anyhow::Result<()> {
    // cargo asks each test for its list.
    if std::env::args().any(|word| word == "--list") {
        println!("figures-domains: test");
        return Ok(());
    }
    interrupt::install()?;
    let frames = number("POORWILL_FRAMES")?.unwrap_or(FRAMES);
    let own = format!("frames = {frames} ");
    let plan = include_str!("figures.toml").replace("frames = 2000 ", &own);
    let (setup, cores) = (Setup::find(), Cores::new(1));
    let (host, prepared) = (Host::new(&cores, false), Prepared::default());
    let mut all = Vec::new();
    for trial in expand(&read_plan(&plan)?)? {
        if !is_chosen(&trial.name) {
            continue;
        }
        if let Some(missing) = setup.missing_for(&trial) {
            bail!("{missing}");
        }
        for seen in run_trial(&trial, &setup, &host, &prepared)? {
            for part in &seen.parts {
                all.push(Figures::of(&trial.name, &seen, part)?);
            }
        }
    }
    let refusals = match is_chosen("crowd") {
        true => Some([
            refusal(&setup, Others::Idle)?,
            refusal(&setup, Others::Storm)?,
        ]),
        false => None,
    };
    save(&all, refusals)?;
    if let Some([idle, storm]) = refusals {
        ensure!(
            storm <= idle + MOST_REFUSAL,
            "a refused sleep takes {storm} ns beside seven other domains, and {idle} ns alone"
        );
    }
    check(&all)
}

/// Checks each group's figures against those beside its idle domain, and the wakes that differ in
/// Linux's memory in use.
fn check(all: &[Figures]) -> anyhow::Result<()> {
    for (group, idle) in IDLE {
        let is_of_group = |figures: &&Figures| figures.trial.starts_with(group);
        let group: Vec<_> = all.iter().filter(is_of_group).collect();
        let Some(idle) = group.iter().find(|figures| figures.name == idle) else {
            continue;
        };
        for figures in &group {
            figures.check(&idle.late).context(figures.name.clone())?;
        }
    }
    if let Some([little, much]) = in_use(all) {
        ensure!(
            100 * little.abs_diff(much) <= MOST_CHANGE * little,
            "from power-on to the first frame: {little} instructions, and {much} with more memory in use"
        );
    }
    Ok(())
}

/// Instructions from the power-on to the first frame in [`IN_USE`]'s parts.
fn in_use(all: &[Figures]) -> Option<[u64; 2]> {
    let of = |name| all.iter().find(|figures| figures.name == name);
    let [little, much] = IN_USE.map(|name| of(name)?.from_power_on);
    Some([little?, much?])
}

/// The longest refusal of a sleep, in nanoseconds.
fn refusal(setup: &Setup, others: Others) -> anyhow::Result<u64> {
    let longest = longest_refusal(setup, others, REFUSALS);
    let longest = longest.with_context(|| format!("refusals beside seven domains: {others:?}"))?;
    println!("figures: refusals beside seven domains, {others:?}: at most {longest} ns");
    Ok(longest)
}

/// The critical guest's figures while another domain does one thing.
struct Figures {
    /// The trial's name.
    trial: String,
    name: String,
    late: Late,
    entries: Entries,
    /// The most instructions from a wake event to the first frame.
    to_frame: Option<u64>,
    /// Instructions from the power-on to the first frame.
    from_power_on: Option<u64>,
}

impl Figures {
    fn of(trial: &str, seen: &Seen, part: &Part) -> anyhow::Result<Self> {
        let wakes = wakes(&seen.log, &seen.beats)?;
        let beats = &seen.beats[part.frames.clone()];
        let times = beats.first().zip(beats.last());
        let is_in_part =
            |event| times.is_some_and(|(first, last)| (first.time..last.time).contains(&event));
        let wakes = wakes.iter().filter(|wake| is_in_part(wake.event));
        let figures = Figures {
            trial: trial.to_owned(),
            name: part.name.clone(),
            late: Late::of(&seen.beats, part.frames.clone())?,
            entries: part.entries.clone(),
            to_frame: wakes.map(|wake| wake.to_frame).max(),
            from_power_on: seen.from_power_on.filter(|_| part.frames.start == 0),
        };
        println!("figures: {}", figures.line().trim_end());
        Ok(figures)
    }

    fn line(&self) -> String {
        let (late, entries) = (self.late, &self.entries);
        let [to_frame, from_power_on] = [self.to_frame, self.from_power_on]
            .map(|figure| figure.map_or("".into(), |figure| figure.to_string()));
        format!(
            "| {} | {} | {} | {}, {} | {}, {} | {} | {} | {} | {to_frame} | {from_power_on} |\n",
            self.name,
            late.beats,
            late.missed,
            late.beat.0,
            late.beat.1,
            late.control.0,
            late.control.1,
            entries.calls,
            entries.timers,
            entries.others.len(),
        )
    }

    /// Checks the figures against those beside an `idle` domain.
    fn check(&self, idle: &Late) -> anyhow::Result<()> {
        let (late, others) = (self.late, &self.entries.others);
        ensure!(late.missed == 0, "{} heartbeats missed", late.missed);
        ensure!(
            late.beat.0 <= idle.beat.0 + MOST_LATER
                && late.control.0 * 1000 <= idle.control.0 * 1000 + MOST_LATER,
            "later than beside an idle domain by more than {MOST_LATER} ns"
        );
        ensure!(
            others.is_empty(),
            "the critical harts entered machine mode for others:\n{}",
            others.join("\n")
        );
        ensure!(
            self.to_frame.is_none_or(|most| most <= MOST_TO_FRAME),
            "more than {MOST_TO_FRAME} instructions to the first frame"
        );
        ensure!(
            self.from_power_on
                .is_none_or(|figure| figure <= MOST_FROM_POWER_ON),
            "more than {MOST_FROM_POWER_ON} instructions from the power-on to the first frame"
        );
        Ok(())
    }
}

/// Writes the table and the plot.
fn save(all: &[Figures], refusals: Option<[u64; 2]>) -> anyhow::Result<()> {
    let mut page = HEAD.to_owned();
    for figures in all {
        page += &figures.line();
    }
    page += LEGEND;
    if let Some([little, much]) = in_use(all) {
        // A float represents these numbers exactly.
        let ratio = much as f64 / little as f64;
        write!(
            page,
            "\nInstructions from power-on to the first frame, with 1.5 GiB in use of Linux relative to \
             0.25 GiB: {ratio:.4}.\n"
        )?;
    }
    if let Some([idle, storm]) = refusals {
        write!(
            page,
            "\nA refused sleep of the machine takes at most {idle} ns beside seven idle domains, and \
             {storm} ns beside seven that park and wake without a pause.\n"
        )?;
    }
    print!("{page}");
    let bars: Vec<_> = all.iter().map(bar).collect();
    let plot = plot::bars(&bars, "lateness of heartbeats at 99.9 %, and the most, us")?;
    for (name, text) in [("figures-domains.md", page), ("figures-domains.svg", plot)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build");
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn bar(figures: &Figures) -> Bar {
    let us = |ns: u64| f64::from(u32::try_from(ns).unwrap_or(u32::MAX)) / 1000.0;
    let (high, most) = figures.late.beat;
    Bar {
        name: figures.name.clone(),
        parts: vec![us(high)],
        ends: (us(high), us(most)),
    }
}
