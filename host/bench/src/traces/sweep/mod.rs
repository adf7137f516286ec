//! Runs traces on all machines over all swept parameters.

mod figures;
pub mod footprint;
pub mod lifetimes;
mod plots;
mod points;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use poorwill_oc_pmem::{Machine, Outcome, Parameters};
use poorwill_trace::Header;

pub use figures::{Figures, Means, summary};
pub use plots::{Plot, plots};
pub use points::{CLOCKS, Point, READINGS, points};

use super::error::TracesError;
use super::library::Found;
use super::model::parameters_of;

/// Requests of each trace that a sweep executes by default, from the window's start.
pub const USUAL_REQUESTS: u64 = 2_000_000;

/// A trace of the sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// Its name.
    pub name: String,
    /// Its file.
    pub found: Found,
    /// Its header.
    pub header: Header,
}

/// A run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    trace: usize,
    point: usize,
    machine: Machine,
}

/// The results of a sweep.
#[derive(Debug)]
pub struct Sweep {
    /// The names of its traces.
    pub traces: Vec<String>,
    /// Its points.
    pub points: Vec<Point>,
    results: Vec<(Job, Outcome)>,
}

/// Number of runs of a sweep.
#[must_use]
pub fn runs(traces: usize) -> usize {
    let machines = points().into_iter().map(|point| point.machines.len());
    traces * machines.sum::<usize>()
}

/// Executes a sweep on all of the host's processors. `done` is called after each run.
///
/// # Errors
///
/// A trace is damaged, or beyond the model; or the user has interrupted.
pub fn sweep(
    traces: &[Swept],
    requests: u64,
    done: &(dyn Fn() + Sync),
) -> Result<Sweep, TracesError> {
    let points = points();
    let bases = traces.iter().map(|trace| parameters_of(&trace.header));
    let bases = bases.collect::<Result<Vec<_>, _>>()?;
    let mut jobs = Vec::new();
    for (at, point) in points.iter().enumerate() {
        for trace in 0..traces.len() {
            let machines = point.machines.iter();
            jobs.extend(machines.map(|machine| Job {
                trace,
                point: at,
                machine: *machine,
            }));
        }
    }
    let one = |job: &Job| {
        let mut parameters: Parameters = bases[job.trace].clone();
        let point = &points[job.point];
        point.set(&mut parameters).map_err(TracesError::Memory)?;
        let found = &traces[job.trace].found;
        let reader = found.open(|file| file)?;
        let outcome = poorwill_trace::run(reader, job.machine, &parameters, Some(requests));
        done();
        outcome.map_err(|reason| found.refused(reason))
    };
    let results = each_on_all_processors(&jobs, one)?;
    Ok(Sweep {
        traces: traces.iter().map(|trace| trace.name.clone()).collect(),
        results: jobs.into_iter().zip(results).collect(),
        points,
    })
}

/// Calls `one` for each job, and returns the results in the jobs' order. After an error no further
/// job begins.
pub(super) fn each_on_all_processors<J: Sync, T: Send, E: Send>(
    jobs: &[J],
    one: impl Fn(&J) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        while !has_failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { break };
            let result = one(job);
            has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            let mut results = results.lock().unwrap_or_else(|held| held.into_inner());
            results.push((at, result));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(|held| held.into_inner());
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

impl Sweep {
    /// What a machine made of a trace at a point.
    #[must_use]
    pub fn outcome(&self, trace: usize, point: usize, machine: Machine) -> Option<&Outcome> {
        let own = self.points[point].machines.contains(&machine);
        let point = if own { point } else { self.points[point].base };
        let wanted = Job {
            trace,
            point,
            machine,
        };
        let found = self.results.iter().find(|(job, _)| *job == wanted);
        found.map(|(_, outcome)| outcome)
    }

    /// All runs: trace, point, machine and outcome.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Point, Machine, &Outcome)> {
        self.results.iter().map(|(job, outcome)| {
            let trace = &*self.traces[job.trace];
            (trace, &self.points[job.point], job.machine, outcome)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_their_jobs() {
        let jobs: Vec<u64> = (0..500).collect();
        let twice = each_on_all_processors(&jobs, |job| Ok::<_, ()>(2 * job));
        assert!(
            twice
                .unwrap()
                .iter()
                .copied()
                .eq((0..500).map(|job| 2 * job))
        );
        let started = AtomicUsize::new(0);
        let failed = each_on_all_processors(&jobs, |job| {
            started.fetch_add(1, Ordering::Relaxed);
            if *job == 3 {
                return Err(*job);
            }
            thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        assert_eq!(failed, Err(3));
        assert!(started.load(Ordering::Relaxed) < 500, "no more jobs begin");
    }
}
