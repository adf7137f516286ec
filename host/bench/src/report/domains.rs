//! A timeline for each kind of start of the machine with domains, and the table of all starts. Both
//! have Jumpstart's figures beside the measured ones.

use super::figures::{Figure, legend};
use super::plot::{self, Bar};
use super::tables::{Grid, texts};
use crate::domains::figures::{ANSWER, FIRST_FRAME, Figure as OfStart, of};
use crate::domains::{Domains, Start};
use crate::mean::Mean;
use crate::spread::Spread;

/// The instants of a start, in their order.
const INSTANTS: [OfStart; 5] = [
    |start| start.began_ms,
    |start| start.released_ms,
    FIRST_FRAME,
    |start| start.loaded_ms,
    ANSWER,
];

/// The parts of a bar, each up to the instant.
const PARTS: [&str; 5] = [
    "QEMU's start, or the byte's way",
    "firmware",
    "first frame",
    "Linux loaded",
    "redis's first answer",
];

/// Averages of Jumpstart (Golchin and West): wakes from powered RAM and a cold boot, to the first
/// message on the bus and to Linux's userspace.
const JUMPSTART: Start = paper(Some(508.21 + 33.11), Some(603.64), 1048.90);
const JUMPSTART_ALONE: Start = paper(Some(512.21), None, 1240.16);
const JUMPSTART_COLD: Start = paper(None, Some(16_667.0), 24_523.0);

const fn paper(released_ms: Option<f64>, first_frame_ms: Option<f64>, answer_ms: f64) -> Start {
    Start {
        began_ms: None,
        released_ms,
        first_frame_ms,
        loaded_ms: None,
        answer_ms,
    }
}

/// A timeline for each kind of start.
pub(super) fn figures(domains: &Domains) -> anyhow::Result<[Figure; 3]> {
    let jumpstart: [(&str, &[Start]); 2] = [
        ("Jumpstart", &[JUMPSTART]),
        ("its Linux", &[JUMPSTART_ALONE]),
    ];
    let wakes = [
        ("domains", &*domains.persist_wakes),
        ("Linux alone", &*domains.alone_persist_wakes),
    ];
    let text = format!(
        "Each domain has {} harts and {} MiB. The parts end at medians; the black line reaches from \
         the shortest to the longest start. {} frames came, and none is lost, repeated or stale.",
        domains.harts, domains.memory_mib, domains.frames
    );
    let paper = "Jumpstart's wakes, and those of its Linux alone (Golchin and West, tables VI and V), are \
                 of another machine, from powered RAM, to Linux's userspace.";
    Ok([
        timeline(
            "Domains: cold boot",
            format!("From power-on. {text}"),
            &[("domains", &domains.cold_boots)],
        )?,
        timeline(
            "Domains: wake with the power off",
            format!("From power-on. {paper}"),
            &[wakes, jumpstart].concat(),
        )?,
        timeline(
            "Domains: wake from powered RAM",
            format!("From the byte that wakes the machine. {paper}"),
            &[&[("domains", &*domains.wakes)], &jumpstart[..]].concat(),
        )?,
    ])
}

fn timeline(title: &str, text: String, starts: &[(&str, &[Start])]) -> anyhow::Result<Figure> {
    let bars = starts.iter().filter_map(|(name, starts)| bar(name, starts));
    Ok(Figure {
        title: title.into(),
        text,
        svg: plot::bars(&bars.collect::<Vec<_>>(), "seconds")?,
        legend: legend(&PARTS),
    })
}

/// A bar whose parts end at the instants. An instant that is unknown, or that comes after the next
/// one, has no part.
fn bar(name: &str, starts: &[Start]) -> Option<Bar> {
    let spread = |figure| Spread::of_any(of(starts, figure).into_iter());
    let whole = spread(ANSWER)?;
    let mut reached = 0.0_f64;
    let parts = INSTANTS.map(|instant| {
        let at = spread(instant).map_or(reached, |at| at.median / 1000.0);
        let part = (at - reached).max(0.0);
        reached = reached.max(at);
        part
    });
    Some(Bar {
        name: name.into(),
        parts: parts.into(),
        ends: (whole.least / 1000.0, whole.most / 1000.0),
    })
}

/// The table of all starts.
pub(super) fn grid(domains: &Domains) -> Grid {
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
