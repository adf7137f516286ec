//! The paper's comparators, which keep a program by saving it: figures 19 and 20. All of it is
//! modelled.
//!
//! A run takes LightPC [`CYCLES`] with one power failure. The comparators execute the same work on
//! DRAM (LegacyPC), and save to OC-PMEM beside it:
//!
//! - SysPC saves a system's image at the failure, and restores it after.
//! - S-CheckPC saves all pages of the programs after each second of their execution, and restores them
//!   once.
//! - A-CheckPC saves at each function's end the lines that were stored since the end before, and
//!   restores the programs' pages once.
//!
//! Each rate and each stall is the model's. A copy of 16 MiB gives the rate of an image.

mod plots;

pub use plots::{Plot, plots};

use poorwill_oc_pmem::{Checkpoints, Direction, Machine, Outcome, Parameters, Time, Transfer};
use poorwill_trace::{CLASSES, Header, Returns};

use super::error::TracesError;
use super::model::parameters_of;
use super::programs::Program;
use super::sweep::{Swept, each_on_all_processors};

/// Cycles of LightPC's whole run: the paper's 60 billion of SysPC over 1.6.
pub const CYCLES: f64 = 37.5e9;

/// The paper's times of SysPC, S-CheckPC and A-CheckPC over LightPC's.
pub const PAPER: [f64; 3] = [1.6, 2.4, 8.8];

/// The greatest factor between the paper's figure and one within its bound.
const FACTOR: f64 = 2.0;

/// Lines of a copy whose rate is measured: 16 MiB, which is a thousand times all row buffers.
const COPIED: u64 = 1 << 18;

/// Lines, and checkpoints, of the runs that measure a checkpoint's time.
const SAVED: u64 = 8192;
const LEAST_ENDS: u64 = 16;

const LINES_OF_PAGE: u64 = 64;
const LINE: u64 = 64;

/// A point: values that differ from the base point, and harts that copy an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Values to set.
    pub sets: &'static [&'static str],
    /// Harts that copy; 0: all.
    pub copying: usize,
}

/// All points. They were declared before the first result. Linux saves an image on one hart, and so
/// does BLCR a process.
pub const POINTS: [Point; 6] = [
    point(&["clock=0.4"], 1),
    point(&["clock=0.4"], 0),
    point(&["clock=0.4", "write=8.8"], 1),
    point(&["clock=1.6"], 1),
    point(&["clock=1.6"], 0),
    point(&["clock=1.6", "write=8.8"], 1),
];

const fn point(sets: &'static [&'static str], copying: usize) -> Point {
    Point { sets, copying }
}

impl Point {
    /// Its values as text.
    #[must_use]
    pub fn name(&self) -> String {
        let sets = self.sets.join(" ");
        match self.copying {
            0 => format!("{sets}, all harts copy"),
            _ => sets,
        }
    }
}

/// A comparator's time over LightPC's: what its programs take, and what saving and restoring do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// The programs' execution on DRAM.
    pub execution: f64,
    /// Saving and restoring.
    pub control: f64,
    /// One save's time in milliseconds; for A-CheckPC a mean checkpoint's.
    pub save_ms: f64,
}

impl Share {
    /// The whole.
    #[must_use]
    pub fn all(&self) -> f64 {
        self.execution + self.control
    }
}

/// The comparators on one trace at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The trace.
    pub trace: String,
    /// Number of the point in [`POINTS`].
    pub point: usize,
    /// SysPC with all memory as its image, S-CheckPC, A-CheckPC.
    pub shares: [Share; 3],
    /// SysPC with the measured image, if there is one.
    pub image: Option<Share>,
    /// Pages of 4 KiB that S-CheckPC saves.
    pub pages: u64,
    /// Checkpoints of A-CheckPC in a million instructions, and their mean lines. Ends of functions
    /// that stored nothing have none.
    pub checkpoints: f64,
    /// See `checkpoints`.
    pub lines: f64,
}

impl Compared {
    /// S-CheckPC's save in MiB.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a size")]
    pub fn pages_mib(&self) -> f64 {
        self.pages as f64 / 256.0
    }
}

/// The names of the shares.
pub const NAMES: [&str; 3] = ["SysPC", "S-CheckPC", "A-CheckPC"];

/// Compares on all traces at all points, on all of the host's processors. Of each trace the first
/// `requests` requests run. `image`: bytes of a measured system image. `done` is called after each.
///
/// # Errors
///
/// A trace is damaged, or beyond the model; or the user has interrupted.
pub fn compare(
    traces: &[Swept],
    requests: u64,
    image: Option<u64>,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Compared>, TracesError> {
    let all: Vec<(usize, usize)> = (0..traces.len())
        .flat_map(|trace| (0..POINTS.len()).map(move |point| (trace, point)))
        .collect();
    let one = |(trace, point): &(usize, usize)| {
        let compared = of_trace(&traces[*trace], *point, requests, image);
        done();
        compared
    };
    each_on_all_processors(&all, one)
}

fn of_trace(
    trace: &Swept,
    number: usize,
    requests: u64,
    image: Option<u64>,
) -> Result<Compared, TracesError> {
    let point = &POINTS[number];
    let mut parameters = parameters_of(&trace.header)?;
    (point.sets.iter())
        .try_for_each(|set| parameters.set(set))
        .map_err(TracesError::Memory)?;
    let on = |machine| {
        let reader = trace.found.open(|file| file)?;
        let outcome = poorwill_trace::run(reader, machine, &parameters, Some(requests));
        outcome.map_err(|reason| trace.found.refused(reason))
    };
    let [light, legacy] = [on(Machine::LightPc)?, on(Machine::Dram)?];
    let copying = match point.copying {
        0 => trace.header.harts.len(),
        some => some,
    };
    let costs = Costs::new(&parameters, copying);
    let mut compared = costs.compare(&trace.header, &light, &legacy, image);
    compared.trace.clone_from(&trace.name);
    compared.point = number;
    Ok(compared)
}

/// What copies cost on a machine.
struct Costs<'p> {
    parameters: &'p Parameters,
    /// Seconds of a line that is saved, and of one that is restored.
    save: f64,
    restore: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of picoseconds")]
fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e12
}

impl<'p> Costs<'p> {
    fn new(parameters: &'p Parameters, copying: usize) -> Self {
        let each = COPIED / copying.max(1) as u64;
        let of_line = |direction| {
            let outcome = Transfer::new(direction, copying, each).run(parameters);
            #[expect(clippy::cast_precision_loss, reason = "few lines")]
            let lines = (each * copying as u64) as f64;
            seconds(outcome.settled) / lines
        };
        Costs {
            parameters,
            save: of_line(Direction::Save),
            restore: of_line(Direction::Restore),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "ratios")]
    fn compare(
        &self,
        header: &Header,
        light: &Outcome,
        legacy: &Outcome,
        image: Option<u64>,
    ) -> Compared {
        let of_light = seconds(light.time);
        let execution = seconds(legacy.time) / of_light;
        let whole = CYCLES * seconds(self.parameters.cycle());
        let sys = |bytes: u64| {
            let lines = bytes.div_ceil(LINE) as f64;
            Share {
                execution,
                control: lines * (self.save + self.restore) / whole,
                save_ms: 1e3 * lines * self.save,
            }
        };
        let pages = (header.pages * LINES_OF_PAGE) as f64;
        let save = pages * self.save;
        let restored = pages * self.restore / whole;
        // A timer of execution: the time of a save is beside it.
        let saves = (execution * whole).floor();
        let returns = Ends::of(header, legacy);
        let stalled = returns.stalled(self.parameters);
        let (checkpoints, lines) = returns.counts();
        Compared {
            trace: String::new(),
            point: 0,
            shares: [
                sys(header.setting.memory),
                Share {
                    execution,
                    control: saves * save / whole + restored,
                    save_ms: 1e3 * save,
                },
                Share {
                    execution,
                    control: (seconds(stalled) - seconds(legacy.time)) / of_light + restored,
                    save_ms: 1e3 * returns.mean(self.parameters),
                },
            ],
            image: image.map(sys),
            pages: header.pages,
            checkpoints: 1e6 * checkpoints / (legacy.instructions.max(1) as f64),
            lines: lines / checkpoints.max(1e-9),
        }
    }
}

/// The ends of functions in the executed part of a trace.
struct Ends<'h> {
    header: &'h Header,
    legacy: &'h Outcome,
    /// The executed part of the trace's window, by instructions.
    part: f64,
}

impl<'h> Ends<'h> {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn of(header: &'h Header, legacy: &'h Outcome) -> Self {
        let all: u64 = header.harts.iter().map(|hart| hart.instructions).sum();
        Ends {
            header,
            legacy,
            part: legacy.instructions as f64 / all.max(1) as f64,
        }
    }

    /// Number of ends with a checkpoint, and the sum of their lines, of all harts.
    #[expect(clippy::cast_precision_loss, reason = "ratios")]
    fn counts(&self) -> (f64, f64) {
        let all = self.header.harts.iter().flat_map(|hart| &hart.returns[1..]);
        let (count, lines) = all.fold((0, 0), |(count, lines), one| {
            (count + one.count, lines + one.lines)
        });
        (count as f64 * self.part, lines as f64 * self.part)
    }

    /// Instructions that take the time between two checkpoints of a hart.
    fn work(&self, parameters: &Parameters) -> u64 {
        let ends = (self.legacy.harts.iter()).fold(Time::ZERO, |sum, end| sum + *end);
        let between = seconds(ends) / self.counts().0.max(1.0);
        let cycles = between / seconds(parameters.cycle());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and a window's cycles"
        )]
        let cycles = cycles.clamp(1.0, 1e9) as u64;
        cycles
    }

    /// Seconds for which a checkpoint of each class stalls its hart, while all harts make such ones.
    fn stalls(&self, parameters: &Parameters) -> [f64; CLASSES] {
        let work = self.work(parameters);
        let harts = self.header.harts.len();
        let mut stalls = [0.0; CLASSES];
        for (class, stall) in stalls.iter_mut().enumerate().skip(1) {
            let own = self.header.harts.iter().map(|hart| hart.returns[class]);
            let all = own.fold(Returns::default(), |sum, one| Returns {
                count: sum.count + one.count,
                lines: sum.lines + one.lines,
            });
            if all.count > 0 {
                let ends = (SAVED * all.count / all.lines).max(LEAST_ENDS);
                let lines = ends * all.lines / all.count;
                let outcome = Checkpoints::new(harts, work, ends, lines).run(parameters);
                let worked = parameters.cycle() * (ends * work);
                #[expect(clippy::cast_precision_loss, reason = "few checkpoints")]
                let ends = ends as f64;
                *stall = (seconds(outcome.time) - seconds(worked)) / ends;
            }
        }
        stalls
    }

    /// The end of the last hart that stalls at its checkpoints.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "picoseconds of a window"
    )]
    fn stalled(&self, parameters: &Parameters) -> Time {
        let stalls = self.stalls(parameters);
        let ends = self.header.harts.iter().zip(&self.legacy.harts);
        let ends = ends.map(|(hart, end)| {
            let stalled = hart.returns.iter().zip(stalls);
            let stalled: f64 = stalled.map(|(one, stall)| one.count as f64 * stall).sum();
            *end + Time((stalled * self.part * 1e12) as u64)
        });
        ends.fold(Time::ZERO, Time::max)
    }

    /// The mean checkpoint's seconds.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn mean(&self, parameters: &Parameters) -> f64 {
        let stalls = self.stalls(parameters);
        let all = self
            .header
            .harts
            .iter()
            .flat_map(|hart| hart.returns.iter().zip(stalls));
        let sum: f64 = all.map(|(one, stall)| one.count as f64 * stall).sum();
        sum * self.part / self.counts().0.max(1e-9)
    }
}

/// Means over the programs at a point, without STREAM's kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Number of the point in [`POINTS`].
    pub point: usize,
    /// See [`Compared::shares`].
    pub shares: [Share; 3],
    /// See [`Compared::image`].
    pub image: Option<Share>,
    /// The least and the greatest whole of each share.
    pub ends: [(f64, f64); 3],
}

impl Summary {
    /// Whether each comparator takes longer than the one before.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.shares
            .windows(2)
            .all(|two| two[0].all() < two[1].all())
    }

    /// Whether a share is within its bound.
    #[must_use]
    pub fn is_within(&self, share: usize) -> bool {
        let ratio = self.shares[share].all() / PAPER[share];
        (1.0 / FACTOR..=FACTOR).contains(&ratio)
    }
}

/// The means at each point that has a program.
#[must_use]
pub fn summaries(all: &[Compared]) -> Vec<Summary> {
    let points = 0..POINTS.len();
    points.filter_map(|point| summary(all, point)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "few programs")]
fn summary(all: &[Compared], point: usize) -> Option<Summary> {
    let is_program =
        |trace: &str| Program::of_trace(trace).is_none_or(|(program, _)| program.row.is_some());
    let own = all
        .iter()
        .filter(|one| one.point == point && is_program(&one.trace));
    let own: Vec<_> = own.collect();
    let mean = |of: &dyn Fn(&Compared) -> Share| {
        let sum = own
            .iter()
            .map(|one| of(one))
            .fold(Share::default(), |sum, one| Share {
                execution: sum.execution + one.execution,
                control: sum.control + one.control,
                save_ms: sum.save_ms + one.save_ms,
            });
        let count = own.len() as f64;
        Share {
            execution: sum.execution / count,
            control: sum.control / count,
            save_ms: sum.save_ms / count,
        }
    };
    let first = own.first()?;
    let ends = [0, 1, 2].map(|share| {
        let wholes = || own.iter().map(|one: &&Compared| one.shares[share].all());
        (
            wholes().fold(f64::INFINITY, f64::min),
            wholes().fold(0.0, f64::max),
        )
    });
    Some(Summary {
        point,
        shares: [0, 1, 2].map(|share| mean(&|one| one.shares[share])),
        image: first
            .image
            .map(|_| mean(&|one| one.image.unwrap_or_default())),
        ends,
    })
}

#[cfg(test)]
mod tests;
