//! The plots of the page, with their texts.

use crate::appliance::{Appliance, METHODS};
use crate::compare::{Case, Comparison};
use crate::plot::{self, Axes, Bar, Series};
use crate::results::Results;
use crate::spread::Spread;
use crate::{Pair, Sealing};

/// A plot with its title and text.
pub(super) struct Figure {
    pub(super) title: String,
    /// An explanation of one or two sentences.
    pub(super) text: String,
    pub(super) svg: String,
    /// The names and colours of the series.
    pub(super) legend: Vec<(String, String)>,
}

pub(super) fn all(results: &Results) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if let Some(compare) = &results.compare {
        figures.push(wake_parts(compare)?);
        figures.push(sleep_parts(compare)?);
        figures.push(ways_back(compare)?);
        figures.push(ways_down(compare)?);
        figures.push(over_installed(compare)?);
        figures.push(bytes_moved(compare)?);
    }
    if let Some(appliance) = &results.appliance {
        figures.push(appliance_starts(appliance)?);
    }
    if !results.start.is_empty() {
        figures.push(starts(results)?);
    }
    if !results.seal.is_empty() {
        figures.push(sealing(&results.seal)?);
    }
    Ok(figures)
}

pub(super) fn legend(names: &[&str]) -> Vec<(String, String)> {
    let colour = |(index, name): (usize, &&str)| ((*name).to_owned(), plot::css(index));
    names.iter().enumerate().map(colour).collect()
}

fn short(case: &Case) -> String {
    let name = case.name();
    name.strip_suffix(" GiB").unwrap_or(&name).to_owned()
}

/// The medians of `parts` in seconds, and the rest of `whole`.
fn parts(whole: Spread, parts: &[Option<Spread>]) -> Vec<f64> {
    let known: Vec<f64> = parts
        .iter()
        .map(|part| part.map_or(0.0, |part| part.median / 1000.0))
        .collect();
    let rest = whole.median / 1000.0 - known.iter().sum::<f64>();
    known.into_iter().chain([rest.max(0.0)]).collect()
}

fn bar(case: &Case, whole: Spread, of: &[Option<Spread>]) -> Bar {
    Bar {
        name: short(case),
        parts: parts(whole, of),
        ends: (whole.least / 1000.0, whole.most / 1000.0),
    }
}

fn wake_parts(compare: &Comparison) -> anyhow::Result<Figure> {
    let bars: Vec<Bar> = compare
        .cases
        .iter()
        .filter_map(|case| {
            let of = [
                case.wake(|wake| (wake.handed_over_at_ms - wake.firmware_ms).max(0.0)),
                case.wake(|wake| (wake.firmware_ms - wake.load_ms).max(0.0)),
                case.wake(|wake| wake.load_ms),
                case.kernel_resume(),
            ];
            Some(bar(case, case.wake(|wake| wake.total_ms)?, &of))
        })
        .collect();
    Ok(Figure {
        title: "A wake, by part".into(),
        text: format!(
            "From power-on to redis's first answer, for each machine (GiB in use of GiB \
             installed). Medians of {} rounds; the black line reaches from the shortest to the \
             longest wake. The part \"reset\" ends when the firmware has found its clock. The kernel's part is from its own log.",
            compare.rounds
        ),
        svg: plot::bars(&bars, "seconds")?,
        legend: legend(&[
            "reset",
            "firmware",
            "loading",
            "kernel",
            "redis's first answer",
        ]),
    })
}

fn appliance_starts(appliance: &Appliance) -> anyhow::Result<Figure> {
    let bars: Vec<Bar> = METHODS
        .iter()
        .filter_map(|(name, starts)| {
            let of = |of| Appliance::spread(starts(appliance), of);
            let whole = of(|start| start.application_ms)?;
            let of = [
                of(|start| start.firmware_ms),
                of(|start| start.shell_ms - start.firmware_ms),
            ];
            Some(Bar {
                name: (*name).replace("Linux's ", ""),
                parts: parts(whole, &of),
                ends: (whole.least / 1000.0, whole.most / 1000.0),
            })
        })
        .collect();
    Ok(Figure {
        title: "Snapshot boot".into(),
        text: format!(
            "From power-on to the first answer of an HTTP service in Python with {} keys in redis, on {} harts and {} MiB. Medians; the black line reaches from the \
             shortest to the longest. The power is cut without warning after each start from the snapshot.",
            appliance.keys, appliance.harts, appliance.memory_mib
        ),
        svg: plot::bars(&bars, "seconds")?,
        legend: legend(&["firmware", "to the first program", "to the shop's answer"]),
    })
}

fn sleep_parts(compare: &Comparison) -> anyhow::Result<Figure> {
    let bars: Vec<Bar> = compare
        .cases
        .iter()
        .filter_map(|case| {
            let kernel = Spread::of_any(case.sleeps.iter().filter_map(|sleep| sleep.kernel_ms));
            let of = [
                kernel,
                case.sleep(|sleep| (sleep.firmware_ms - sleep.save_ms).max(0.0)),
                case.sleep(|sleep| sleep.save_ms),
            ];
            Some(bar(case, case.sleep(|sleep| sleep.total_ms)?, &of))
        })
        .collect();
    Ok(Figure {
        title: "A sleep, by part".into(),
        text: "From the request (a write to /sys/power/state) to the end of QEMU's process, for \
               each machine (GiB in use of GiB installed). The rest is the power-off and QEMU's \
               own end."
            .into(),
        svg: plot::bars(&bars, "seconds")?,
        legend: legend(&["kernel", "firmware", "saving", "the rest"]),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
fn as_gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
fn mib_as_gib(mib: u64) -> f64 {
    mib as f64 / 1024.0
}

fn in_seconds(spread: Spread) -> Spread {
    Spread {
        median: spread.median / 1000.0,
        least: spread.least / 1000.0,
        most: spread.most / 1000.0,
    }
}

/// The RAM of the largest machine, which has the most cases.
fn largest(compare: &Comparison) -> u64 {
    compare
        .cases
        .iter()
        .map(|case| case.installed_mib)
        .max()
        .unwrap_or(0)
}

/// The times of one way to wake or sleep, over the memory in use.
fn over_used(
    cases: &[&Case],
    (colour, name): (usize, &str),
    figure: impl Fn(&Case) -> Option<Spread>,
) -> Series {
    let point = |case: &&Case| Some((mib_as_gib(case.used_mib), in_seconds(figure(case)?)));
    Series {
        name: name.to_owned(),
        colour,
        points: cases.iter().filter_map(point).collect(),
    }
}

/// The cases of all machines, and those of the largest.
fn all_and_largest(compare: &Comparison) -> (Vec<&Case>, Vec<&Case>) {
    let all: Vec<&Case> = compare.cases.iter().collect();
    let mut of_largest = all.clone();
    of_largest.retain(|case| case.installed_mib == largest(compare));
    (all, of_largest)
}

fn ways_back(compare: &Comparison) -> anyhow::Result<Figure> {
    let (all, largest_ones) = all_and_largest(compare);
    let series = [
        over_used(&largest_ones, (0, "Poorwill's wake"), |case| {
            case.wake(|wake| wake.total_ms)
        }),
        over_used(&largest_ones, (1, "QEMU's restore, mapped-ram"), |case| {
            case.qemu("mapped-ram", |cycle| cycle.total_ms)
        }),
        over_used(&largest_ones, (2, "QEMU's restore, stream"), |case| {
            case.qemu("stream", |cycle| cycle.total_ms)
        }),
        over_used(&largest_ones, (3, "cold boot"), |case| {
            case.cold_boot(|boot| boot.total_ms)
        }),
        over_used(&all, (4, "Linux's hibernation"), |case| {
            case.hibernation(|one| one.total_ms)
        }),
        over_used(&largest_ones, (5, "plain read"), |case| {
            case.plain(|plain| plain.read_ms)
        }),
    ];
    Ok(Figure {
        title: "Ways to wake, over memory in use".into(),
        text: format!(
            "Power-on to redis's first answer in a machine of {} GiB; hibernation wherever it \
             was measured. Linux's plain read of the image's bytes is the limit of \
             loading alone. The vertical axis is logarithmic.",
            mib_as_gib(largest(compare))
        ),
        svg: plot::lines(&series, &axes("GiB in use", "seconds", true, false))?,
        legend: plot::legend_of(series.iter().map(Series::entry)),
    })
}

fn ways_down(compare: &Comparison) -> anyhow::Result<Figure> {
    let (all, largest_ones) = all_and_largest(compare);
    let series = [
        over_used(&largest_ones, (0, "Poorwill's sleep"), |case| {
            case.sleep(|sleep| sleep.total_ms)
        }),
        over_used(&largest_ones, (1, "QEMU's save, mapped-ram"), |case| {
            case.qemu("mapped-ram", |cycle| cycle.save_total_ms)
        }),
        over_used(&largest_ones, (2, "QEMU's save, stream"), |case| {
            case.qemu("stream", |cycle| cycle.save_total_ms)
        }),
        over_used(&all, (4, "Linux's hibernation"), |case| {
            case.hibernation(|one| one.save_ms)
        }),
        over_used(&largest_ones, (5, "plain write"), |case| {
            case.plain(|plain| plain.write_ms)
        }),
    ];
    Ok(Figure {
        title: "Ways to sleep, over memory in use".into(),
        text: format!(
            "From the request to QEMU's end in a machine of {} GiB; hibernation wherever it was \
             measured. Poorwill, Linux and the plain write flush their data; QEMU does not.",
            mib_as_gib(largest(compare))
        ),
        svg: plot::lines(&series, &axes("GiB in use", "seconds", true, false))?,
        legend: plot::legend_of(series.iter().map(Series::entry)),
    })
}

fn over_installed(compare: &Comparison) -> anyhow::Result<Figure> {
    let mut used: Vec<u64> = compare.cases.iter().map(|case| case.used_mib).collect();
    used.sort_unstable();
    used.dedup();
    let mut series = Vec::new();
    for (colour, used) in used.into_iter().enumerate() {
        let of_used = compare.cases.iter().filter(|case| case.used_mib == used);
        let point = |case: &Case| {
            let wake = case.wake(|wake| wake.total_ms)?;
            Some((mib_as_gib(case.installed_mib), in_seconds(wake)))
        };
        series.push(Series {
            name: format!("{} GiB in use", mib_as_gib(used)),
            colour,
            points: of_used.filter_map(point).collect(),
        });
    }
    Ok(Figure {
        title: "A wake, over installed memory".into(),
        text: "Power-on to redis's first answer. Flat lines mean that memory which is not in \
               use costs nothing."
            .into(),
        svg: plot::lines(&series, &axes("GiB installed", "seconds", false, false))?,
        legend: plot::legend_of(series.iter().map(Series::entry)),
    })
}

fn bytes_moved(compare: &Comparison) -> anyhow::Result<Figure> {
    let used = |case: &Case| case.sleep(|sleep| sleep.used_bytes.map(as_gib));
    let series = |colour, name: &str, figure: &dyn Fn(&Case) -> Option<Spread>| {
        let point = |case: &Case| Some((used(case)?.median, figure(case)?));
        let mut points: Vec<_> = compare.cases.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            name: name.to_owned(),
            colour,
            points,
        }
    };
    let all = [
        series(0, "Poorwill's image", &|case| {
            case.sleep(|sleep| as_gib(sleep.saved_bytes))
        }),
        series(1, "QEMU's file, mapped-ram", &|case| {
            case.qemu("mapped-ram", |cycle| as_gib(cycle.file_bytes))
        }),
        series(2, "QEMU's file, stream", &|case| {
            case.qemu("stream", |cycle| as_gib(cycle.file_bytes))
        }),
    ];
    Ok(Figure {
        title: "Bytes moved, beside bytes in use".into(),
        text: "The image's size, over the memory that the kernel calls used (MemTotal - MemFree) at the request to sleep, for all machines. The thin lines mark ratios of 1 and 1.1."
            .into(),
        svg: plot::lines(
            &all,
            &axes("GiB in use, by the kernel", "GiB moved", false, true),
        )?,
        legend: plot::legend_of(all.iter().map(Series::entry)),
    })
}

fn axes<'a>(x: &'a str, y: &'a str, logarithmic: bool, identity: bool) -> Axes<'a> {
    Axes {
        x,
        y,
        logarithmic,
        identity,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a length on an axis")]
fn starts(results: &Results) -> anyhow::Result<Figure> {
    let mut bars = Vec::new();
    for start in &results.start {
        for (name, count, place) in [
            ("Poorwill", start.poorwill, 0),
            ("OpenSBI", start.opensbi, 1),
        ] {
            let millions = count as f64 / 1e6;
            let mut parts = vec![0.0; 2];
            parts[place] = millions;
            bars.push(Bar {
                name: match name {
                    "Poorwill" => format!("{:?}, {}", start.interrupts, start.harts),
                    _ => String::new(),
                },
                parts,
                ends: (millions, millions),
            });
        }
    }
    Ok(Figure {
        title: "Power-on to the next stage".into(),
        text: "Millions of instructions, for each kind of interrupt controller and number of \
               harts. Poorwill also looks for an image on a disk; OpenSBI does not. Instructions do not depend on the host's load."
            .into(),
        svg: plot::bars(&bars, "millions of instructions")?,
        legend: legend(&["Poorwill", "OpenSBI"]),
    })
}

fn sealing(all: &[Sealing]) -> anyhow::Result<Figure> {
    let mut bars = Vec::new();
    for sealing in all {
        let harts = sealing.harts;
        for (name, figure) in [
            (
                "plain",
                (|pair: &Pair| pair.plain.load_per_gib()) as fn(&Pair) -> f64,
            ),
            ("sealed", |pair| pair.sealed.load_per_gib()),
        ] {
            let spread = sealing.spread(|pair| figure(pair) / 1e6);
            let place = usize::from(name == "sealed");
            let mut parts = vec![0.0; 2];
            parts[place] = spread.median;
            bars.push(Bar {
                name: if place == 0 {
                    format!("{harts} harts")
                } else {
                    String::new()
                },
                parts,
                ends: (spread.least, spread.most),
            });
        }
    }
    Ok(Figure {
        title: "Sealed images".into(),
        text: "Seconds of loading for each GiB of image, plain and sealed, by the machine's own \
               clock, for machines of 1 and more harts. Under emulation the cipher is the cost."
            .into(),
        svg: plot::bars(&bars, "seconds for each GiB")?,
        legend: legend(&["plain", "sealed"]),
    })
}
