//! The figures of the plots, as tables of text.

use super::domains::{INSTANTS, JUMPSTART, JUMPSTART_ALONE, JUMPSTART_COLD};
use crate::CounterRead;
use crate::appliance::Appliance;
use crate::compare::{Case, Comparison, gib};
use crate::domains::figures::of;
use crate::domains::{Domains, Start};
use crate::mean::Mean;
use crate::results::Results;
use crate::spread::seconds as cell;
use crate::table::table;

#[derive(Clone, Debug)]
pub struct Grid {
    pub title: &'static str,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    /// The table for the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = table(&self.heads, 1);
        table.add_rows(&self.rows);
        table.to_string()
    }
}

#[must_use]
pub fn all(results: &Results) -> Vec<Grid> {
    let mut grids = Vec::new();
    if !results.counters.is_empty() {
        grids.push(counters(&results.counters));
    }
    if let Some(compare) = &results.compare {
        grids.push(seconds(compare));
        grids.push(rates(compare));
    }
    if let Some(appliance) = &results.appliance {
        grids.push(starts(appliance));
    }
    if let Some(domains) = &results.domains {
        grids.push(of_domains(domains));
    }
    if !results.instructions.is_empty() {
        grids.push(instructions(results));
    }
    grids
}

/// The table of emulated reads.
fn counters(reads: &[CounterRead]) -> Grid {
    let row = |read: &CounterRead| {
        let (poorwill, opensbi) = (read.poorwill.to_string(), read.opensbi.to_string());
        let ratio = format!("{:.2}", read.ratio());
        vec![read.counter.clone(), poorwill, opensbi, ratio]
    };
    Grid {
        title: "Instructions of an emulated read of a counter, on harts without Zicntr",
        heads: texts(&["counter", "Poorwill", "OpenSBI", "ratio"]),
        rows: reads.iter().map(row).collect(),
    }
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn sizes(case: &Case) -> [String; 2] {
    [gib(case.used_mib), gib(case.installed_mib)]
}

fn seconds(compare: &Comparison) -> Grid {
    let mut kinds: Vec<&str> = Vec::new();
    for kind in compare.cases.iter().flat_map(Case::qemu_kinds) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut heads = texts(&[
        "GiB used",
        "of",
        "sleep",
        "wake",
        "cold boot",
        "hibernate",
        "resume",
    ]);
    for kind in &kinds {
        heads.push(format!("QEMU saves ({kind})"));
        heads.push(format!("QEMU restores ({kind})"));
    }
    let row = |case: &Case| {
        let mut row: Vec<String> = sizes(case).into();
        row.extend([
            cell(case.sleep(|sleep| sleep.total_ms)),
            cell(case.wake(|wake| wake.total_ms)),
            cell(case.cold_boot(|boot| boot.total_ms)),
            cell(case.hibernation(|one| one.save_ms)),
            cell(case.hibernation(|one| one.total_ms)),
        ]);
        for kind in &kinds {
            row.push(cell(case.qemu(kind, |cycle| cycle.save_total_ms)));
            row.push(cell(case.qemu(kind, |cycle| cycle.restore_ms)));
        }
        row
    };
    Grid {
        title: "Seconds: medians, with the least and the most",
        heads,
        rows: compare.cases.iter().map(row).collect(),
    }
}

/// Table 1 of Kaminaga's paper, with the measured figures beside the printed ones.
fn starts(appliance: &Appliance) -> Grid {
    Grid {
        title: "Snapshot boot, seconds: medians, with the least and the most; the paper's means come from another machine",
        heads: texts(&[
            "start",
            "shell",
            "application",
            "the paper's shell",
            "the paper's application",
        ]),
        rows: appliance.rows(),
    }
}

/// The table of all starts.
fn of_domains(domains: &Domains) -> Grid {
    let none = || "–".to_owned();
    let mean = |values: &[f64]| {
        Mean::of(values).map_or_else(none, |Mean { mean, interval }| match values.len() {
            1 => format!("{mean:.1}"),
            _ => format!("{mean:.1} ({:.1} to {:.1})", interval[0], interval[1]),
        })
    };
    let row = |name: &str, starts: &[Start]| {
        let mut row = vec![name.to_owned(), starts.len().to_string()];
        row.extend(INSTANTS.map(|instant| mean(&of(starts, instant))));
        row
    };
    let linux = |name: &str, values: &[f64]| {
        let mut row = vec![name.to_owned(), values.len().to_string()];
        row.extend([none(), none(), none(), none(), mean(values)]);
        row
    };
    let paper = |name: &str, start: Start| {
        let mut row = row(name, &[start]);
        row[1] = none();
        row
    };
    Grid {
        title: "Two domains, milliseconds: means, with the intervals that hold them at 95 %; Jumpstart's come from another machine",
        heads: texts(&[
            "start",
            "times",
            "firmware begins",
            "first domain continues",
            "first frame",
            "Linux continues",
            "redis's first answer",
        ]),
        rows: vec![
            row("cold boot", &domains.cold_boots),
            row("wake with the power off", &domains.persist_wakes),
            row("the same without domains", &domains.alone_persist_wakes),
            row("wake from powered RAM", &domains.wakes),
            linux("Linux's part of it", &domains.linux_ms),
            linux("the same without domains", &domains.alone_ms),
            paper("Jumpstart's cold boot (table III)", JUMPSTART_COLD),
            paper("Jumpstart's wake (table VI)", JUMPSTART),
            paper("its Linux alone (table V)", JUMPSTART_ALONE),
        ],
    }
}

fn rates(compare: &Comparison) -> Grid {
    let rate = |rate: Option<f64>| rate.map_or("–".into(), |rate| format!("{rate:.0}"));
    let row = |case: &Case| {
        let mut row: Vec<String> = sizes(case).into();
        let host = |ms: fn(&crate::compare::PlainCopy) -> f64| {
            let rates = case.plain(|plain| crate::compare::rate(plain.host_bytes, ms(plain)));
            rate(rates.map(|spread| spread.median))
        };
        row.extend([
            rate(case.load_rate()),
            rate(case.plain_read_rate()),
            host(|plain| plain.host_read_ms),
            rate(case.save_rate()),
            rate(case.plain_write_rate()),
            host(|plain| plain.host_write_ms),
        ]);
        row
    };
    Grid {
        title: "MB/s: medians. Plain copies are Linux's in the machine, and the host's",
        heads: texts(&[
            "GiB used",
            "of",
            "loading",
            "plain read",
            "host's read",
            "saving",
            "plain write",
            "host's write",
        ]),
        rows: compare.cases.iter().map(row).collect(),
    }
}

fn instructions(results: &Results) -> Grid {
    let row = |count: &crate::instructions::Count| {
        vec![
            count.name.clone(),
            count.instructions.to_string(),
            count.most.to_string(),
        ]
    };
    Grid {
        title: "Instructions of the firmware",
        heads: texts(&["what", "least of the runs", "most"]),
        rows: results.instructions.iter().map(row).collect(),
    }
}
