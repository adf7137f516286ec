//! The weak core's figures, beside those of the slides on decelerated suspend and resume.

use super::figures::{Figure, legend};
use super::tables::Grid;
use crate::executor::slides::{CORES, FIRST, MACHINES, OPTIMISED};
use crate::executor::{Accesses, Case, Executor, Half, Part, Share, Times};
use crate::plot::{self, Bar};

/// Devices that are shown: those with most time or accesses.
const SHOWN: usize = 12;

/// The title of the tables' and plots' other machines.
const SLIDES: &str = "The slides' figures (Zhai, Guo, Li and Lin, 2017) are of other machines.";

/// The plots.
pub(super) fn figures(executor: &Executor) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if !executor.cases.is_empty() {
        figures.push(ratios(executor)?);
    }
    if !executor.times.is_empty() {
        figures.push(halves(executor)?);
        for times in executor.times.iter().filter(|times| times.is_async) {
            figures.push(devices(times)?);
        }
    }
    if let Some(accesses) = &executor.accesses {
        figures.push(waits(accesses)?);
    }
    Ok(figures)
}

/// The tables.
pub(super) fn tables(executor: &Executor) -> Vec<Grid> {
    let mut grids = vec![instructions(executor), cores()];
    if !executor.times.is_empty() {
        grids.insert(1, sleeps(executor));
        grids.insert(2, phases(executor));
        grids.insert(3, device_times(executor));
    }
    if let Some(accesses) = &executor.accesses {
        grids.push(of_accesses(accesses));
    }
    grids
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn number(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.2}"))
}

fn instructions(executor: &Executor) -> Grid {
    let row = |case: &Case| {
        let millions = |part, figure: fn(&Half) -> u64| {
            let of = |half: &Half| crate::executor::as_f64(figure(half)) / 1e6;
            number(case.warm_median(part, of))
        };
        let mut row = vec![case.name()];
        for part in [Part::Suspend, Part::Resume] {
            row.push(millions(part, |half| half.instructions));
            row.push(millions(part, |half| half.own));
            row.push(number(case.first_ratio(part)));
            row.push(number(case.second_to_warm(part)));
            row.push(number(case.warm_ratio(part)));
        }
        row.push(number(case.warm_ratio(Part::Both)));
        row
    };
    let slides = |what: &str, ratio: f64| {
        let mut row = vec![format!("slides, {what}")];
        row.extend(vec!["–".to_owned(); 10]);
        row.push(number(Some(ratio)));
        row
    };
    let mut rows: Vec<_> = executor.cases.iter().map(row).collect();
    rows.push(slides("their first translator", FIRST));
    rows.push(slides("to native on the weak core", OPTIMISED));
    Grid {
        title: "A weak core: millions of instructions of the OS and of the core, and their ratios; warm: medians from the third half on; the slides' ratios are of cycles",
        heads: texts(&[
            "machine",
            "suspend: OS",
            "core",
            "first",
            "second / warm",
            "warm",
            "resume: OS",
            "core",
            "first",
            "second / warm",
            "warm",
            "both, warm",
        ]),
        rows,
    }
}

fn sleeps(executor: &Executor) -> Grid {
    let own = executor.times.iter().map(|times| {
        let count = times.devices.len();
        let [suspend, resume] = ["suspend", "resume"].map(|half| times.sum_ms(half));
        let numbers = [suspend, resume].map(|ms| format!("{ms:.2}"));
        [vec![times.name()], numbers.into(), vec![count.to_string()]].concat()
    });
    let theirs = MACHINES.iter().map(|machine| {
        let drivers = machine.drivers;
        vec![
            format!("slides, {}", machine.name),
            format!("{:.0}", machine.suspend_ms),
            format!("{:.0}", machine.resume_ms),
            drivers.map_or("–".into(), |drivers| drivers.to_string()),
        ]
    });
    Grid {
        title: "Suspend and resume of devices, ms, by the kernel; an instruction takes 1 ns; the slides' times are of the whole suspend and resume",
        heads: texts(&[
            "machine",
            "suspend",
            "resume",
            "devices with callbacks, or drivers",
        ]),
        rows: own.chain(theirs).collect(),
    }
}

/// The heads of a table with a column for each of the times.
fn heads(first: &str, times: &[Times]) -> Vec<String> {
    let names = times.iter().map(Times::name);
    [first.to_owned()].into_iter().chain(names).collect()
}

fn phases(executor: &Executor) -> Grid {
    let first = executor.times.first().map(|times| times.phases.as_slice());
    let row = |name: &str| {
        let of = |times: &Times| {
            let phase = times.phases.iter().find(|phase| phase.name == name);
            phase.map_or("–".into(), |phase| format!("{:.3}", phase.ms))
        };
        let cells = executor.times.iter().map(of);
        [name.to_owned()].into_iter().chain(cells).collect()
    };
    let names = first.unwrap_or_default().iter();
    Grid {
        title: "Phases, ms, by the kernel: medians of warm sleeps",
        heads: heads("phase", &executor.times),
        rows: names.map(|phase| row(&phase.name)).collect(),
    }
}

fn device_times(executor: &Executor) -> Grid {
    let last = executor.times.last().map(|times| times.devices.as_slice());
    let row = |name: &str| {
        let of = |times: &Times| {
            let device = times.devices.iter().find(|device| device.name == name);
            device.map_or("–".into(), |device| {
                format!("{:.0} / {:.0}", device.suspend_us, device.resume_us)
            })
        };
        let cells = executor.times.iter().map(of);
        [name.to_owned()].into_iter().chain(cells).collect()
    };
    let slowest = last.unwrap_or_default().iter().take(SHOWN);
    Grid {
        title: "Callbacks of the slowest devices, µs, suspend / resume, by the kernel (pm_print_times): medians of warm sleeps",
        heads: heads("device", &executor.times),
        rows: slowest.map(|device| row(&device.name)).collect(),
    }
}

fn cores() -> Grid {
    let row = |cores: &crate::executor::slides::Cores| {
        vec![
            cores.name.to_owned(),
            cores.little_mw.to_string(),
            cores.big_mw.to_string(),
            format!("{:.1}", cores.big_mw / cores.little_mw),
        ]
    };
    Grid {
        title: "Power of weak and strong cores, mW, by slide 23",
        heads: texts(&["cores", "weak", "strong", "ratio"]),
        rows: CORES.iter().map(row).collect(),
    }
}

fn of_accesses(accesses: &Accesses) -> Grid {
    let cells = |share: Share| {
        [share.loads, share.stores, share.wait_us].map(|value| format!("{value:.0}"))
    };
    let row = |device: &crate::executor::DeviceAccesses| {
        let name = vec![device.name.clone()];
        [
            name,
            cells(device.suspend).into(),
            cells(device.resume).into(),
        ]
        .concat()
    };
    Grid {
        title: "The weak core's accesses to devices and its waits before them, machine mode's own included: means of a warm sleep",
        heads: texts(&[
            "device",
            "suspend: loads",
            "stores",
            "waits, µs",
            "resume: loads",
            "stores",
            "waits, µs",
        ]),
        rows: accesses.devices.iter().map(row).collect(),
    }
}

fn ratios(executor: &Executor) -> anyhow::Result<Figure> {
    let short = |case: &Case| case.name().replace("devices", "dev.");
    let own = executor.cases.iter().filter_map(|case| {
        let warm = case.warm_ratio(Part::Both)?;
        let first = case.first_ratio(Part::Both)?;
        Some(Bar {
            name: short(case),
            parts: vec![warm, (first - warm).max(0.0)],
            ends: (warm, first.max(warm)),
        })
    });
    let slides = Bar {
        name: "slides".into(),
        parts: vec![OPTIMISED, FIRST - OPTIMISED],
        ends: (OPTIMISED, FIRST),
    };
    let bars: Vec<Bar> = own.chain([slides]).collect();
    Ok(Figure {
        title: "A weak core: its instructions for each one of the OS".into(),
        text: format!(
            "Both halves of a sleep, warm, and the first time. {SLIDES} Their bar is in cycles: 2 to native \
             code on the weak core, and the 20 of the translator that they began with."
        ),
        svg: plot::bars(&bars, "instructions for each of the OS")?,
        legend: legend(&["warm", "the first time"]),
    })
}

fn bar(name: String, suspend_ms: f64, resume_ms: f64) -> Bar {
    let whole = suspend_ms + resume_ms;
    Bar {
        name,
        parts: vec![suspend_ms, resume_ms],
        ends: (whole, whole),
    }
}

fn halves(executor: &Executor) -> anyhow::Result<Figure> {
    let own = executor.times.iter().map(|times| {
        let name = format!(
            "{}, {}",
            if times.is_on { "weak" } else { "strong" },
            if times.is_async { "async" } else { "sync" }
        );
        bar(name, times.sum_ms("suspend"), times.sum_ms("resume"))
    });
    let theirs = MACHINES.iter();
    let theirs = theirs.map(|one| bar(one.name.into(), one.suspend_ms, one.resume_ms));
    let bars: Vec<Bar> = own.chain(theirs).collect();
    Ok(Figure {
        title: "Suspend and resume of devices".into(),
        text: format!(
            "The kernel's own times. The strong or the weak core runs it; an instruction of either takes \
             1 ns. async: devices at once. {SLIDES}"
        ),
        svg: plot::bars(&bars, "milliseconds")?,
        legend: legend(&["suspend", "resume"]),
    })
}

/// A device's name on an axis: its driver in place of an address.
fn short(name: &str) -> &str {
    let mut words = name.split_whitespace();
    let (first, last) = (words.next().unwrap_or_default(), words.next_back());
    let name = last.filter(|last| !last.starts_with(|c: char| c.is_ascii_digit()));
    name.unwrap_or(first).split('@').next().unwrap_or_default()
}

fn devices(times: &Times) -> anyhow::Result<Figure> {
    let slowest = times.devices.iter().take(SHOWN);
    let bars: Vec<Bar> = slowest
        .map(|device| {
            let ms = |us: f64| us / 1000.0;
            let name = short(&device.name);
            bar(name.into(), ms(device.suspend_us), ms(device.resume_us))
        })
        .collect();
    Ok(Figure {
        title: format!("The slowest devices: {}", times.name()),
        text:
            "Time in each device's callbacks, by the kernel. Callbacks of several devices overlap."
                .into(),
        svg: plot::bars(&bars, "milliseconds")?,
        legend: legend(&["suspend", "resume"]),
    })
}

fn waits(accesses: &Accesses) -> anyhow::Result<Figure> {
    let wait = |device: &&crate::executor::DeviceAccesses| {
        device.suspend.wait_us + device.resume.wait_us > 0.0
    };
    let waiting = accesses.devices.iter().filter(wait).take(SHOWN);
    let bars: Vec<Bar> = waiting
        .map(|device| {
            bar(
                short(&device.name).into(),
                device.suspend.wait_us / 1000.0,
                device.resume.wait_us / 1000.0,
            )
        })
        .collect();
    Ok(Figure {
        title: "Waits by device".into(),
        text: "Time in which the weak core waits. A wait belongs to the first device that the core accesses \
               after it."
            .into(),
        svg: plot::bars(&bars, "milliseconds of a sleep")?,
        legend: legend(&["suspend", "resume"]),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_short_name_has_no_address() {
        for (name, short) in [
            ("e1000e 0000:00:03.0", "e1000e"),
            ("sd 0:0:0:0", "sd"),
            ("rtc rtc0", "rtc0"),
            (" ata6", "ata6"),
            ("serial@10000000", "serial"),
            ("none", "none"),
        ] {
            assert_eq!(super::short(name), short);
        }
    }
}
