//! How many instructions the firmware takes: figures that do not depend on what
//! else the host does.
//!
//! QEMU counts under `-icount`, where the machine's clock goes on by one nanosecond
//! with each instruction, and by the whole of each wait. Waiting for the disk costs
//! some, and how many is the host's affair: nothing is flushed, the machine is slowed
//! down ([`Machine::stepwise`](crate::machine::Machine::stepwise)), and of several
//! runs the least counts.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{BenchOptions, seal, start};
use crate::machine::{Interrupts, Qemu};

/// One thing that the firmware does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Which: see the baseline.
    pub name: String,
    /// The least of all runs.
    pub instructions: u64,
    /// The most of all runs.
    pub most: u64,
}

/// More than this, in a baseline, is worse.
pub const TOLERANCE: f64 = 1.10;

/// How often each is counted.
const RUNS: u32 = 3;

/// Counts: power-on to the next stage on machines of 1 and 4 harts, and on one
/// with 1 hart a sleep and a wake.
///
/// # Errors
///
/// What failed, with the console's end.
pub fn measure(options: &BenchOptions, tell: &dyn Fn(&str)) -> anyhow::Result<Vec<Count>> {
    let qemu = Qemu::find()?;
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut add = |name: &str, count: u64| {
        let (least, most) = counts.entry(name.to_owned()).or_insert((count, count));
        *least = count.min(*least);
        *most = count.max(*most);
    };
    let stage = start::Stage::make(options)?;
    for run in 1..=RUNS {
        tell(&format!("counting instructions, run {run} of {RUNS}"));
        for (interrupts, harts) in start::MACHINES {
            let count = stage.count(&options.firmware, interrupts, harts, &qemu);
            let name = start_name(interrupts, harts);
            add(&name, count.with_context(|| name.clone())?);
        }
        let (sleep, wake) = seal::count_plain(options, &qemu)?;
        add("sleep-plain-1", sleep);
        add("wake-plain-1", wake);
    }
    let named = |(name, (instructions, most))| Count {
        name,
        instructions,
        most,
    };
    Ok(counts.into_iter().map(named).collect())
}

/// The same things counted again: the least and the most of both.
#[must_use]
pub fn again(before: &[Count], now: Vec<Count>) -> Vec<Count> {
    let both = |count: Count| {
        let same = before.iter().find(|one| one.name == count.name);
        same.map_or(count.clone(), |one| Count {
            instructions: one.instructions.min(count.instructions),
            most: one.most.max(count.most),
            ..count
        })
    };
    now.into_iter().map(both).collect()
}

fn start_name(interrupts: Interrupts, harts: u32) -> String {
    format!("start-{}-{harts}", format!("{interrupts:?}").to_lowercase())
}

/// What was counted when the firmware was good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// QEMU's version; another may count otherwise.
    pub qemu: String,
    /// Instructions by name.
    pub instructions: BTreeMap<String, u64>,
}

impl Baseline {
    /// Of what was counted now.
    #[must_use]
    pub fn of(counts: &[Count], qemu: String) -> Self {
        let named = |count: &Count| (count.name.clone(), count.instructions);
        Baseline {
            qemu,
            instructions: counts.iter().map(named).collect(),
        }
    }

    /// Reads `file`.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no baseline.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("reading the baseline {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no baseline", file.display()))
    }

    /// Sets `counts` beside this: a line for each, and whether any is worse.
    #[must_use]
    pub fn compare(&self, counts: &[Count]) -> (Vec<String>, bool) {
        let mut lines = Vec::new();
        let mut worse = false;
        for count in counts {
            let line = match self.instructions.get(&count.name) {
                None => {
                    worse = true;
                    format!(
                        "{}: {} now, not in the baseline",
                        count.name, count.instructions
                    )
                }
                Some(&before) => {
                    let verdict = judge(before, count.instructions);
                    worse |= verdict == Verdict::Worse;
                    line(count, before, verdict)
                }
            };
            lines.push(line);
        }
        for name in self.instructions.keys() {
            if !counts.iter().any(|count| count.name == *name) {
                worse = true;
                lines.push(format!("{name}: in the baseline, not counted now"));
            }
        }
        (lines, worse)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Better,
    Worse,
}

#[expect(clippy::cast_precision_loss, reason = "a ratio to two digits")]
fn ratio(before: u64, now: u64) -> f64 {
    now as f64 / before as f64
}

fn judge(before: u64, now: u64) -> Verdict {
    match ratio(before, now) {
        more if more > TOLERANCE => Verdict::Worse,
        less if less < 1.0 / TOLERANCE => Verdict::Better,
        _ => Verdict::Good,
    }
}

fn line(count: &Count, before: u64, verdict: Verdict) -> String {
    let words = match verdict {
        Verdict::Good => "",
        Verdict::Better => " (better: let the baseline follow, with `make perf-baseline`)",
        Verdict::Worse => " WORSE by more than 10 %",
    };
    format!(
        "{}: {before} in the baseline, {} now, ratio {:.3}{words}",
        count.name,
        count.instructions,
        ratio(before, count.instructions)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, instructions: u64) -> Count {
        Count {
            name: name.into(),
            instructions,
            most: instructions,
        }
    }

    fn baseline() -> Baseline {
        Baseline::of(&[count("a", 1000), count("b", 2000)], "QEMU".into())
    }

    #[test]
    fn ten_percent_more_is_worse() {
        let (_, worse) = baseline().compare(&[count("a", 1100), count("b", 2000)]);
        assert!(!worse);
        let (lines, worse) = baseline().compare(&[count("a", 1101), count("b", 1000)]);
        assert!(worse);
        assert!(lines[0].contains("1000 in the baseline, 1101 now, ratio 1.101 WORSE"));
        assert!(lines[1].contains("better"), "{lines:?}");
    }

    #[test]
    fn what_is_on_one_side_only_is_worse() {
        let (lines, worse) = baseline().compare(&[count("a", 1000)]);
        assert!(
            worse && lines[1].contains("b: in the baseline"),
            "{lines:?}"
        );
        let all = [count("a", 1000), count("b", 2000), count("c", 1)];
        let (lines, worse) = baseline().compare(&all);
        assert!(
            worse && lines[2].contains("not in the baseline"),
            "{lines:?}"
        );
    }

    #[test]
    fn counting_again_keeps_the_least() {
        let both = again(
            &[count("a", 5), count("b", 7)],
            vec![count("a", 6), count("b", 4)],
        );
        let least: Vec<u64> = both.iter().map(|count| count.instructions).collect();
        let most: Vec<u64> = both.iter().map(|count| count.most).collect();
        assert_eq!((least, most), (vec![5, 4], vec![6, 7]));
    }

    #[test]
    fn a_baseline_is_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("baseline.json");
        std::fs::write(&file, serde_json::to_string(&baseline()).unwrap()).unwrap();
        assert_eq!(Baseline::read(&file).unwrap(), baseline());
        std::fs::write(&file, "{}").unwrap();
        assert!(Baseline::read(&file).is_err());
    }
}
