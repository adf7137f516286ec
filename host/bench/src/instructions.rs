//! Counts the firmware's instructions. These figures do not depend on the host's load.
//!
//! QEMU counts under `-icount`, with the sleep area in persistent memory. The firmware never waits,
//! so the counts are the same each time (see `counted`).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use poorwill_machine::interrupt;
use poorwill_machine::{Interrupts, Qemu};
use serde::{Deserialize, Serialize};

use crate::counted::Way;
use crate::{BenchOptions, start};

/// The instruction count of one action of the firmware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The action's name; `docs/testing.md` lists them.
    pub name: String,
    /// The least count of all runs.
    pub instructions: u64,
    pub most: u64,
}

/// Number of runs for `poorwill bench instructions`.
const RUNS: u32 = 3;

/// Counts the instructions from power-on to the next stage, on machines of 1 and 4 harts. Also
/// counts each way to sleep and wake, on a machine of 1 hart.
///
/// # Errors
///
/// The guest or a disk cannot be made; a machine does not start, sleep or wake.
pub fn measure(options: &BenchOptions, tell: &dyn Fn(&str)) -> anyhow::Result<Vec<Count>> {
    let mut counter = Counter::new(options)?;
    let mut counts = Counts::default();
    for run in 1..=RUNS {
        tell(&format!("counting instructions, run {run} of {RUNS}"));
        counter.count(&options.firmware, &mut counts)?;
    }
    Ok(counts.all())
}

/// The counts of some runs, by the action's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The least and the greatest count.
    ends: BTreeMap<String, (u64, u64)>,
    /// Actions that the firmware cannot do, with the reasons.
    failed: BTreeMap<String, String>,
}

impl Counts {
    fn add(&mut self, name: &str, count: u64) {
        let ends = self.ends.entry(name.to_owned()).or_insert((count, count));
        *ends = (count.min(ends.0), count.max(ends.1));
    }

    #[must_use]
    pub fn all(self) -> Vec<Count> {
        let named = |(name, (instructions, most))| Count {
            name,
            instructions,
            most,
        };
        self.ends.into_iter().map(named).collect()
    }

    /// Actions that could not be counted, with the reasons ([`Counter::count_other`]).
    pub fn failed(&self) -> impl Iterator<Item = (&str, &str)> {
        (self.failed.iter()).map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// Compares these counts with those of another firmware.
    #[must_use]
    pub fn beside(&self, base: &Counts) -> Vec<Beside> {
        let pair = |(name, now): (&String, &(u64, u64))| {
            let base = base.ends.get(name)?;
            Some(Beside {
                name: name.clone(),
                base: *base,
                now: *now,
            })
        };
        self.ends.iter().filter_map(pair).collect()
    }
}

/// The counts of one action by two firmwares, each as the least and the greatest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    pub name: String,
    /// Counts of the base firmware.
    pub base: (u64, u64),
    /// Counts of the firmware under test.
    pub now: (u64, u64),
}

impl Beside {
    /// The highest allowed ratio to the base.
    #[must_use]
    pub fn limit(&self) -> f64 {
        match self.name.starts_with("start-") {
            true => 1.05,
            false => 1.02,
        }
    }

    /// The least count under test, divided by the base's least count.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio to four digits")]
    pub fn ratio(&self) -> f64 {
        self.now.0 as f64 / self.base.0 as f64
    }

    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.ratio() > self.limit()
    }
}

/// Counts one firmware after another, all with the same guest and the same disks.
#[derive(Debug)]
pub struct Counter<'o> {
    options: &'o BenchOptions,
    qemu: Qemu,
    stage: start::Stage,
}

impl<'o> Counter<'o> {
    /// Prepares the guest and the disks.
    ///
    /// # Errors
    ///
    /// The guest or a disk cannot be made.
    pub fn new(options: &'o BenchOptions) -> anyhow::Result<Self> {
        Ok(Counter {
            options,
            qemu: Qemu::find()?,
            stage: start::Stage::exact(options)?,
        })
    }

    /// Counts each action once.
    ///
    /// # Errors
    ///
    /// A machine does not start, sleep or wake.
    pub fn count(&mut self, firmware: &Path, counts: &mut Counts) -> anyhow::Result<()> {
        for thing in Thing::all() {
            let counted = self.one(thing, firmware);
            let counted = counted.with_context(|| format!("counting {}", thing.name()))?;
            (counted.iter()).for_each(|(name, count)| counts.add(name, *count));
        }
        Ok(())
    }

    /// Like [`count`](Self::count), for an older firmware, which may lack requests of today's
    /// command and guest. An action that fails is recorded, and not tried again.
    ///
    /// # Errors
    ///
    /// Ctrl-C only.
    pub fn count_other(&mut self, firmware: &Path, counts: &mut Counts) -> anyhow::Result<()> {
        for thing in Thing::all() {
            if counts.failed.contains_key(&thing.name()) {
                continue;
            }
            match self.one(thing, firmware) {
                Ok(counted) => (counted.iter()).for_each(|(name, count)| counts.add(name, *count)),
                Err(error) => {
                    interrupt::check()?;
                    counts.failed.insert(thing.name(), format!("{error:#}"));
                }
            }
        }
        Ok(())
    }

    fn one(&self, thing: Thing, firmware: &Path) -> anyhow::Result<Vec<(String, u64)>> {
        match thing {
            Thing::Start(interrupts, harts) => {
                let count = (self.stage).count(firmware, interrupts, harts, &self.qemu)?;
                Ok(vec![(thing.name(), count)])
            }
            Thing::Sleep(way) => way.count(self.options, firmware, &self.qemu),
        }
    }
}

/// An action that is counted by itself.
#[derive(Clone, Copy, Debug)]
enum Thing {
    Start(Interrupts, u32),
    Sleep(Way),
}

impl Thing {
    fn all() -> impl Iterator<Item = Thing> {
        let starts = start::MACHINES.map(|(interrupts, harts)| Thing::Start(interrupts, harts));
        starts.into_iter().chain(Way::ALL.map(Thing::Sleep))
    }

    fn name(self) -> String {
        match self {
            Thing::Start(interrupts, harts) => {
                format!("start-{}-{harts}", format!("{interrupts:?}").to_lowercase())
            }
            Thing::Sleep(way) => format!("{way:?}").to_lowercase(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Counts {
        let mut counts = Counts::default();
        all.iter()
            .for_each(|(name, count)| counts.add(name, *count));
        counts
    }

    #[test]
    fn the_least_counts() {
        let all = counts(&[("a", 6), ("a", 5), ("a", 7)]).all();
        assert_eq!((all[0].instructions, all[0].most), (5, 7));
    }

    #[test]
    fn a_sleep_may_take_two_per_cent_more_and_a_start_five() {
        let base = counts(&[("sleep-plain-1", 1000), ("start-aia-1", 1000)]);
        let worse = |sleep, start| {
            let now = counts(&[("sleep-plain-1", sleep), ("start-aia-1", start)]);
            let both = now.beside(&base);
            [both[0].is_worse(), both[1].is_worse()]
        };
        assert_eq!(worse(1020, 1050), [false, false]);
        assert_eq!(worse(1021, 1051), [true, true]);
        assert_eq!(worse(500, 500), [false, false]);
    }

    #[test]
    fn the_least_of_each_is_compared() {
        let base = counts(&[("wake-plain-1", 1000), ("wake-plain-1", 5000)]);
        let now = counts(&[("wake-plain-1", 9000), ("wake-plain-1", 1001)]);
        assert!(!now.beside(&base)[0].is_worse());
    }
}
