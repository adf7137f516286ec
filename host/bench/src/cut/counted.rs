//! Counts the instructions of Stop and Go with caches that lose lines, beside their times on
//! LightPC. `make figures-cut` uses this.

use std::fmt;

use anyhow::{Context, ensure};
use poorwill_plugin::report::Report;

use super::inputs::Inputs;
use super::machine::{Bench, Subject};
use super::traced::{self, Assumptions, CACHE, FAILS_AT};

/// The most instructions of Stop's critical path, without caches and devices: a millisecond.
pub const MOST_STOP: u64 = 264_000;

/// The most instructions of Go: 12.8 million cycles, at the paper's 0.64 instructions a cycle.
pub const MOST_GO: u64 = 8_200_000;

/// A cut, and the Go after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Instructions of the longest hart from the signal to the power-off.
    stop: u64,
    /// Accesses to devices by the coordinator.
    accesses: u64,
    /// Time from the power-on to the release of the last hart. It is in nanoseconds of the fair
    /// time base, each of which is an instruction.
    go: u64,
}

/// The figures of several cuts of one machine.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The machine.
    pub subject: Subject,
    /// Whether all cuts had the same figures.
    pub is_repeated: bool,
    /// Number of cuts.
    pub runs: usize,
    /// Instructions of the longest hart in Stop: the median, and the worst cut.
    pub stop: (u64, u64),
    /// How many of these are due to the caches' displacement.
    pub displacement: u64,
    /// Accesses to devices by the coordinator, in the worst cut.
    pub accesses: u64,
    /// Lines of all caches, all of which may be dirty.
    pub lines: u64,
    /// Instructions from the power-on to the release of the last hart, in the worst cut.
    pub go: u64,
    /// A traced cut, on the model.
    pub modelled: traced::Cut,
}

impl Figures {
    /// Instructions of Stop's critical path without caches and devices, in the worst cut.
    #[must_use]
    pub fn path(&self) -> u64 {
        self.stop.1 - self.displacement.min(self.stop.1)
    }
}

/// Cuts a machine `runs` times, and once more for its traces.
///
/// # Errors
///
/// A machine does not start, is not cut, or does not resume; or there is no such parameter.
pub fn measure(
    inputs: &Inputs,
    subject: Subject,
    runs: usize,
    assumed: &Assumptions,
) -> anyhow::Result<Figures> {
    assumed.check()?;
    let bench = Bench::begin(inputs, subject, CACHE)?;
    let cuts = (0..runs).map(|_| cut(&bench));
    let cuts: Vec<_> = cuts.collect::<anyhow::Result<_>>()?;
    let modelled = traced::cut(&bench, assumed)?;
    // With caches of twice the size only displacement takes longer, namely twice the time.
    let twice = Bench::begin(inputs, subject, 2 * CACHE)?;
    let twice = median(&[cut(&twice)?].map(|cut| cut.stop));
    let stops: Vec<_> = cuts.iter().map(|cut| cut.stop).collect();
    let worst = cuts.iter().max_by_key(|cut| cut.stop).context("no run")?;
    let usual = median(&stops);
    Ok(Figures {
        subject,
        is_repeated: cuts.iter().all(|cut| cut == &cuts[0]),
        runs,
        stop: (usual, worst.stop),
        displacement: twice.saturating_sub(usual),
        accesses: worst.accesses,
        lines: u64::from(subject.harts) * (CACHE as u64 / 64),
        go: cuts.iter().map(|cut| cut.go).max().context("no run")?,
        modelled,
    })
}

fn cut(bench: &Bench<'_>) -> anyhow::Result<Counts> {
    bench.put_back()?;
    let stopped = bench.power_on(&format!("signal-at={FAILS_AT}"))?;
    let (stop, accesses) = stop_of(&stopped)?;
    bench.put_back()?;
    let gone = bench.power_on(&bench.released()?)?;
    let signal = gone.signal.context("the harts were not released")?;
    Ok(Counts {
        stop,
        accesses,
        go: signal.time.context("there is no time base")?,
    })
}

fn stop_of(report: &Report) -> anyhow::Result<(u64, u64)> {
    let since = report.harts.iter().filter_map(|hart| hart.since_signal);
    let stop = since.max().context("the power-fail line was not raised")?;
    let first = report.harts.first().context("no hart")?;
    let loads = first.device_loads.context("the plugin did not see loads")?;
    ensure!(report.unknown_accesses == 0, "the plugin missed accesses");
    Ok((stop, loads + first.device_stores))
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (usual, worst) = self.stop;
        let same = if self.is_repeated {
            "all the same"
        } else {
            "not all the same"
        };
        write!(
            f,
            "{}: {} runs, {same}; Stop {usual} instructions (worst {worst}), of which {} displace \
             caches; {} device accesses; Go {}",
            self.subject, self.runs, self.displacement, self.accesses, self.go
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_one_of_them() {
        assert_eq!(median(&[3, 1, 2]), 2);
        assert_eq!(median(&[7]), 7);
    }
}
