//! Stop and Go of a machine as the model of LightPC executes them, from traces.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::Context;
use poorwill_oc_pmem::{Fault, Machine, Outcome, ParameterError, Parameters};
use poorwill_plugin::report::Report;
use poorwill_trace::Reader;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::machine::{Bench, Subject};
use crate::traces::parameters_of;

/// Bytes of each hart's cache: LightPC's table I.
pub(crate) const CACHE: usize = 16 << 10;

/// Time of the power failure after a Go, in nanoseconds since the power-on. The OS works by then.
pub(super) const FAILS_AT: u64 = 40_000_000;

/// What a measurement assumes of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumptions {
    /// Nanoseconds of an access to a device's register.
    pub access_ns: u64,
    /// Changes of the model's base point, as `--set` takes them.
    pub parameters: Vec<String>,
}

/// Dead devices took lines that Stop or Go reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{reads} reads of Stop or Go return the containment bit, a machine check that no cut survives: \
     set devices of different stripes dead, or one (--set dead=N)"
)]
struct Lost {
    reads: u64,
}

impl Default for Assumptions {
    /// The base point, and 500 ns for an access.
    fn default() -> Self {
        Assumptions {
            access_ns: 500,
            parameters: Vec::new(),
        }
    }
}

impl Assumptions {
    /// Checks the parameters, before a measurement.
    ///
    /// # Errors
    ///
    /// There is no such parameter, or its value is out of range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let mut parameters = Parameters::default();
        (self.parameters.iter()).try_for_each(|set| parameters.set(set))
    }
}

/// A half of a cut on LightPC. Times do not have device accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Instructions of the longest hart.
    pub instructions: u64,
    /// Until the last hart's end, in cycles.
    pub cycles: u64,
    /// The same in nanoseconds.
    pub time_ns: u64,
    /// Until memory's devices have all writes, in nanoseconds.
    pub settled_ns: u64,
    /// Lines that the harts read and wrote.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
}

/// A cut, and the Go after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// From the power failure to the power-off.
    pub stop: Phase,
    /// From the power-on to the release of the last hart.
    pub go: Phase,
    /// Accesses to devices by the hart that performs the most, in Stop.
    pub accesses: u64,
    /// Nanoseconds of each.
    pub access_ns: u64,
    /// Ticks of Stop by the record.
    pub ticks: u64,
    /// Ticks from the last quiet device to the commit, of these.
    pub after_ticks: u64,
}

/// The cuts of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The machine.
    pub subject: Subject,
    /// Its cuts.
    pub cuts: Vec<Cut>,
}

impl Phase {
    fn of(outcome: &Outcome, instructions: u64) -> Self {
        Phase {
            instructions,
            cycles: outcome.cycles,
            time_ns: outcome.time.0.div_ceil(1000),
            settled_ns: outcome.settled.0.div_ceil(1000),
            reads: outcome.counts.reads,
            writes: outcome.counts.writes,
        }
    }

    /// Instructions of the longest hart for each cycle.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn per_cycle(&self) -> f64 {
        self.instructions as f64 / self.cycles.max(1) as f64
    }
}

impl Cut {
    /// Nanoseconds of Stop, its device accesses included.
    #[must_use]
    pub fn stop_ns(&self) -> u64 {
        self.stop.settled_ns + self.accesses_ns()
    }

    /// Nanoseconds of Stop's device accesses, one after the other.
    #[must_use]
    pub fn accesses_ns(&self) -> u64 {
        self.accesses.saturating_mul(self.access_ns)
    }
}

impl Measured {
    /// The cut with the longest Stop.
    #[must_use]
    pub fn worst(&self) -> Option<&Cut> {
        self.cuts.iter().max_by_key(|cut| cut.stop_ns())
    }

    /// The most cycles of a Go.
    #[must_use]
    pub fn go_cycles(&self) -> u64 {
        let cycles = self.cuts.iter().map(|cut| cut.go.cycles);
        cycles.max().unwrap_or_default()
    }
}

/// Cuts the machine once more, and traces its Stop and its Go.
pub(super) fn cut(bench: &Bench<'_>, assumed: &Assumptions) -> anyhow::Result<Cut> {
    bench.put_back()?;
    let stopped = bench.trace_stop(&format!("signal-at={FAILS_AT}"))?;
    let stop = model(&stopped.trace, &assumed.parameters)?;
    let record = stopped.record.context("no record of the cut")?;
    bench.put_back()?;
    let gone = bench.trace_go(&bench.released()?)?;
    Ok(Cut {
        stop,
        go: model(&gone.trace, &assumed.parameters)?,
        accesses: most_accesses(&stopped.report)?,
        access_ns: assumed.access_ns,
        ticks: record.stop_ticks.unwrap_or_default(),
        after_ticks: record.after_ticks.unwrap_or_default(),
    })
}

/// Runs a trace on LightPC, at the base point with `changes`.
fn model(trace: &Path, changes: &[String]) -> anyhow::Result<Phase> {
    let file = File::open(trace).with_context(|| trace.display().to_string())?;
    let file: Box<dyn Read> = Box::new(BufReader::new(file));
    let reader = Reader::new(file)?;
    let mut parameters = parameters_of(reader.header())?;
    changes.iter().try_for_each(|set| parameters.set(set))?;
    let harts = reader.header().harts.iter();
    let instructions = harts.map(|hart| hart.instructions).max().unwrap_or(0);
    let outcome = poorwill_trace::run(reader, Machine::LightPc, &parameters, None)?;
    if let Some(Fault::Contained { reads, .. }) = outcome.fault() {
        return Err(Lost { reads }.into());
    }
    Ok(Phase::of(&outcome, instructions))
}

/// Device accesses of the hart that performs the most. The others' overlap with them.
fn most_accesses(report: &Report) -> anyhow::Result<u64> {
    let accesses = report.harts.iter().map(|hart| {
        let loads = hart.device_loads;
        loads.map(|loads| loads + hart.device_stores)
    });
    let all = accesses.collect::<Option<Vec<_>>>();
    let all = all.context("the plugin did not see loads")?;
    all.into_iter().max().context("no hart")
}

#[cfg(test)]
mod tests {
    use poorwill_trace::{Counted, HartCounts, Kind, Record, Setting, TraceFile};

    use super::*;

    #[test]
    fn a_trace_of_stop_takes_the_models_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stop.trace");
        let setting = Setting {
            harts: 2,
            cache: 16384,
            ways: 4,
            memory: 256 << 20,
            ..Setting::default()
        };
        let mut trace = TraceFile::create(&file, setting).unwrap();
        for number in 0..1000_u32 {
            let record = Record {
                hart: u16::from(number % 3 == 0),
                kind: [Kind::Load, Kind::WriteBack][number as usize % 2],
                line: number,
                instructions: 10,
            };
            trace.push(&record).unwrap();
        }
        let counts = |instructions| HartCounts {
            instructions,
            ..HartCounts::default()
        };
        let counted = Counted {
            pages: 0,
            harts: vec![counts(7000), counts(4000)],
        };
        trace.finish(counted, true).unwrap();
        let stop = model(&file, &[]).unwrap();
        assert_eq!(stop.instructions, 7000);
        assert_eq!((stop.reads, stop.writes), (500, 500));
        assert!(
            stop.cycles > 7000 && stop.time_ns <= stop.settled_ns,
            "{stop:?}"
        );
        // Cycles of 2.5 ns are rounded up.
        assert!(
            (stop.cycles * 5 / 2).abs_diff(stop.time_ns) <= 3,
            "{stop:?}"
        );
        let slow = model(&file, &["write=8.8".to_owned()]).unwrap();
        assert!(slow.settled_ns > stop.settled_ns);
        // Parity gives the half of one dead device. Two of a group lose its lines.
        let one_dead = model(&file, &["dead=0".to_owned()]).unwrap();
        assert!(one_dead.settled_ns >= stop.settled_ns);
        let lost = model(&file, &["dead=0,1".to_owned()]).unwrap_err();
        assert!(lost.to_string().contains("containment bit"), "{lost}");
        let wrong = Assumptions {
            parameters: vec!["wirte=8".to_owned()],
            ..Assumptions::default()
        };
        assert!(wrong.check().is_err() && Assumptions::default().check().is_ok());
        let cut = Cut {
            stop,
            go: slow,
            accesses: 4,
            access_ns: 500,
            ticks: 0,
            after_ticks: 0,
        };
        assert_eq!(cut.stop_ns(), stop.settled_ns + 2000);
    }
}
