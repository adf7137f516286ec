//! A timeline for each kind of start of the machine with domains, beside Jumpstart's.

use super::figures::{Figure, legend};
use crate::domains::figures::{ANSWER, FIRST_FRAME, Figure as OfStart, of};
use crate::domains::{Domains, Start};
use crate::plot::{self, Bar};
use crate::spread::Spread;

/// The instants of a start, in their order.
pub(super) const INSTANTS: [OfStart; 5] = [
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
pub(super) const JUMPSTART: Start = paper(Some(508.21 + 33.11), Some(603.64), 1048.90);
pub(super) const JUMPSTART_ALONE: Start = paper(Some(512.21), None, 1240.16);
pub(super) const JUMPSTART_COLD: Start = paper(None, Some(16_667.0), 24_523.0);

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
