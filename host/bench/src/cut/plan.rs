//! Plans a machine: how long Stop takes there, and whether its firmware would arm the power-fail
//! line.
//!
//! The firmware's own functions decide: the plan for its caches, the prediction from a rehearsal, and
//! the comparison with the hold-up. In place of a rehearsal they get times of the model.

use std::cell::Cell;

use poorwill_memory::PhysRange;
use poorwill_oc_pmem::{Displacement, Machine, Parameters, run};
use poorwill_sleep::cut::{
    CacheError, CacheMeans, CacheOperations, CachePlan, CacheSize, HoldUpTooShort, LineMeans,
    Rehearsal, StopTime,
};
use thiserror::Error;

use super::supply::Supply;
use super::work::Work;

/// The most cores of a plan.
pub const MOST_CORES: u64 = 512;

/// The most bytes of all caches of a plan: the model executes each of their lines.
pub const MOST_CACHE: u64 = 256 << 20;

/// The most PCI functions in use that a cut keeps.
pub const MOST_FUNCTIONS: u64 = 16;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Memory from which the planned machine reads to displace its caches.
const MEMORY: u64 = 64 << 30;

/// A planned machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its cores, which are harts: 1 to [`MOST_CORES`].
    pub cores: u64,
    /// Bytes of all data caches: at most [`MOST_CACHE`].
    pub cache: u64,
    /// How many of these bytes are in a cache that all cores share. The others are the cores' own,
    /// in equal parts.
    pub shared: u64,
    /// Whether each cache replaces its least recently used line. Otherwise this is unknown.
    pub is_lru: bool,
    /// PCI functions in use: at most [`MOST_FUNCTIONS`].
    pub functions: u64,
    /// Its power supply.
    pub supply: Supply,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The number of cores is out of range.
    #[error("{0} cores: the plan takes 1 to {MOST_CORES}")]
    Cores(u64),
    /// The caches are too large.
    #[error("caches of {0} bytes: the plan takes at most {MOST_CACHE} (256M) in all")]
    Cache(u64),
    /// More is shared than there is.
    #[error("{shared} bytes of cache are shared, of {cache} in all: lower --shared")]
    Shared {
        /// Shared bytes.
        shared: u64,
        /// All bytes.
        cache: u64,
    },
    /// The record has no room for these functions.
    #[error("{0} PCI functions: a cut keeps at most {MOST_FUNCTIONS}")]
    Functions(u64),
    /// The firmware would not know how to write the caches back.
    #[error(transparent)]
    Caches(#[from] CacheError),
}

/// The answer. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Stop without caches and PCI functions.
    pub harts_ns: u64,
    /// Write-back of all caches, whose lines are all dirty, until the devices of memory have them.
    pub caches_ns: u64,
    /// PCI functions in use.
    pub functions_ns: u64,
    /// Lines of all caches.
    pub lines: u64,
    /// Lines that are read to displace them.
    pub reads: u64,
    /// The firmware's prediction.
    pub stop: StopTime,
    /// The firmware's decision: microseconds of Stop, or why the line is not armed.
    pub armed: Result<u64, HoldUpTooShort>,
    /// From the power failure until all devices must be quiet.
    pub quiet_ns: u64,
}

/// Plans the machine, on LightPC's memory at the model's base point. `work` is what Stop does there
/// besides the caches.
///
/// # Errors
///
/// [`PlanError`].
pub fn plan(question: &Question, work: &Work) -> Result<Plan, PlanError> {
    let cores = question.checked()?;
    let caches = question.caches()?;
    let (caches_ns, lines, reads) = caches.write_back(cores);
    // `predict` takes a quarter of the first field for each further hart, and the field once before
    // and once after the devices: with these fields its sum is the measured line.
    let hart = work.hart_ns.saturating_mul(4);
    let rehearsal = Rehearsal {
        survey: 0,
        hart,
        shared: work.first_ns.saturating_sub(hart.saturating_mul(2)),
        flush: caches_ns,
        clean: 0,
        passes: 0,
        written: question.cache,
    };
    let stop = rehearsal.predict(question.cores, Some(question.cache));
    let hold_up_us = question.supply.hold_up_us;
    let hold_up = u64::from(hold_up_us) * 1000;
    Ok(Plan {
        harts_ns: work.of_harts(question.cores),
        caches_ns,
        functions_ns: work.function_ns.saturating_mul(question.functions),
        lines,
        reads,
        stop,
        armed: stop.decide(hold_up, hold_up_us, |ns| ns.div_ceil(1000)),
        quiet_ns: stop.quiet(hold_up),
    })
}

/// Nanoseconds in which LightPC's memory gets all lines of the caches of `cores` cores. Each has
/// `each` bytes, and replaces its least recently used line.
///
/// # Errors
///
/// [`PlanError`].
pub fn written_back(cores: u64, each: u64) -> Result<u64, PlanError> {
    let question = Question {
        cores,
        cache: each.saturating_mul(cores),
        shared: 0,
        is_lru: true,
        functions: 0,
        supply: Supply::default(),
    };
    let cores = question.checked()?;
    Ok(question.caches()?.write_back(cores).0)
}

impl Plan {
    /// Nanoseconds of Stop with all functions in use, without the prediction's margin.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        let sum = self.harts_ns.saturating_add(self.caches_ns);
        sum.saturating_add(self.functions_ns)
    }

    /// Whether a power failure is cut while all functions are in use: the line is armed, and the
    /// functions are quiet in time.
    #[must_use]
    pub fn is_cut_in_use(&self) -> bool {
        let quiet = self.stop.before.saturating_add(self.functions_ns);
        self.armed.is_ok() && quiet <= self.quiet_ns
    }
}

impl Question {
    /// The number of cores, if all fields are in their ranges.
    fn checked(&self) -> Result<usize, PlanError> {
        let cores = usize::try_from(self.cores).unwrap_or(usize::MAX);
        if !(1..=MOST_CORES).contains(&self.cores) {
            return Err(PlanError::Cores(self.cores));
        }
        if self.cache > MOST_CACHE {
            return Err(PlanError::Cache(self.cache));
        }
        if self.shared > self.cache {
            let (shared, cache) = (self.shared, self.cache);
            return Err(PlanError::Shared { shared, cache });
        }
        if self.functions > MOST_FUNCTIONS {
            return Err(PlanError::Functions(self.functions));
        }
        Ok(cores)
    }

    fn caches(&self) -> Result<Caches, CacheError> {
        let is_lru = self.is_lru;
        let size = |bytes| CacheSize { bytes, is_lru };
        let own = (self.cache - self.shared).div_ceil(self.cores);
        let means = CacheMeans {
            first: Some(size(own)),
            further: Some(CacheSize::NONE),
            shared: Some(size(self.shared)),
            has_whole: false,
            // The lines of the record are written back one by one. A walk through all memory by this
            // instruction takes too long.
            block: Some(LINE),
            has_register: false,
        };
        let memory = PhysRange {
            start: 0,
            end: MEMORY,
        };
        Ok(Caches {
            plan: means.plan(&[memory], self.supply.hold_up_us)?,
            own: own.div_ceil(LINE),
            shared: self.shared.div_ceil(LINE),
        })
    }
}

/// Caches with the firmware's plan for them; sizes are in lines.
struct Caches {
    plan: CachePlan,
    own: u64,
    shared: u64,
}

/// Counts the lines that a plan reads.
#[derive(Default)]
struct Reads(Cell<u64>);

impl CacheOperations for Reads {
    fn write_back_whole(&self) {}

    fn write_back(&self, _bytes: PhysRange, _means: LineMeans) {}

    fn read(&self, bytes: u64) {
        self.0.set(self.0.get() + bytes.div_ceil(LINE));
    }

    fn fence(&self) {}

    fn memory(&self) -> impl Iterator<Item = PhysRange> {
        std::iter::empty()
    }
}

impl Caches {
    /// Writes all caches back, whose lines are all dirty: nanoseconds, the lines, and the lines that
    /// are read for it. The coordinator comes after the other harts.
    fn write_back(&self, cores: usize) -> (u64, u64, u64) {
        let (own, rest) = (Reads::default(), Reads::default());
        self.plan.own(&own);
        self.plan.rest(&rest);
        let (own, rest) = (own.0.get(), rest.0.get());
        let others = cores as u64 - 1;
        let phases = [
            Displacement::new(cores - 1, self.own, own),
            Displacement::new(1, self.own + self.shared, rest),
        ];
        let times = phases.map(|mut phase| {
            let outcome = run(&mut phase, Machine::LightPc, &Parameters::default());
            outcome.settled.0.div_ceil(1000)
        });
        let lines = self.own * (others + 1) + self.shared;
        (times.iter().sum(), lines, own * others + rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question(cores: u64, cache: u64, supply: &str) -> Question {
        Question {
            cores,
            cache,
            shared: 0,
            is_lru: true,
            functions: 0,
            supply: supply.parse().expect("a supply"),
        }
    }

    fn planned(question: &Question) -> Plan {
        plan(question, &Work::MEASURED).expect("a plan")
    }

    #[test]
    fn the_firmware_adds_a_quarter() {
        let plan = planned(&question(8, 128 << 10, "16ms"));
        assert_eq!(plan.lines, 2048);
        assert_eq!(plan.reads, 4096);
        let sum = plan.harts_ns + plan.caches_ns;
        let Work {
            first_ns, hart_ns, ..
        } = Work::MEASURED;
        assert_eq!(plan.harts_ns, first_ns + 7 * hart_ns);
        assert!(plan.stop.total().abs_diff(sum * 5 / 4) <= 2, "{plan:?}");
        assert_eq!(plan.armed, Ok(plan.stop.total().div_ceil(1000)));
        assert_eq!(plan.total_ns(), sum);
    }

    #[test]
    fn the_decision_is_the_firmwares() {
        let first = planned(&question(4, 64 << 10, "server"));
        let us = first.armed.expect("armed");
        for (hold_up, is_armed) in [(us + 1, true), (us - 1, false)] {
            let plan = planned(&question(4, 64 << 10, &format!("{hold_up}us")));
            assert_eq!(plan.armed.is_ok(), is_armed, "{plan:?}");
        }
        let refused = planned(&question(4, 64 << 10, "100us")).armed.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("stop takes {us} us, the power lasts 100 us")
        );
    }

    #[test]
    fn functions_in_use_must_be_quiet_in_time() {
        let with = |functions, supply| {
            planned(&Question {
                functions,
                ..question(1, 16 << 10, supply)
            })
        };
        assert!(with(16, "16ms").is_cut_in_use());
        assert!(with(0, "2ms").is_cut_in_use());
        let many = with(16, "2ms");
        assert!(many.armed.is_ok() && !many.is_cut_in_use(), "{many:?}");
    }

    #[test]
    fn a_shared_cache_is_the_coordinators_work() {
        let own = question(8, 1 << 20, "server");
        let shared = Question {
            shared: 1 << 20,
            ..own.clone()
        };
        let unknown = Question {
            is_lru: false,
            ..own.clone()
        };
        let [own, shared, unknown] = [own, shared, unknown].map(|question| planned(&question));
        assert_eq!(own.lines, shared.lines);
        assert!(own.caches_ns < shared.caches_ns);
        assert_eq!(unknown.reads, 10 * own.reads);
        assert!(own.caches_ns < unknown.caches_ns);
    }

    #[test]
    fn what_cannot_be_planned_is_named() {
        let of = |change: fn(&mut Question)| {
            let mut question = question(1, 1024, "atx");
            change(&mut question);
            plan(&question, &Work::MEASURED).unwrap_err().to_string()
        };
        assert!(of(|of| of.cores = 0).contains("1 to 512"));
        assert!(of(|of| of.cores = 513).contains("1 to 512"));
        assert!(of(|of| of.cache = MOST_CACHE + 1).contains("256M"));
        assert!(of(|of| of.shared = 2048).contains("--shared"));
        assert!(of(|of| of.functions = 17).contains("at most 16"));
    }

    proptest! {
        /// A machine with more cores, or with caches of twice the size, is not armed where the other
        /// is not.
        #[test]
        fn a_larger_machine_takes_longer(cores in 1_u64..9, lines in 16_u64..300, functions in 0_u64..16) {
            let of = |cores, lines, functions| planned(&Question {
                functions,
                ..question(cores, lines * cores * LINE, "1ms")
            });
            let small = of(cores, lines, functions);
            for large in [of(cores, 2 * lines, functions), of(cores + 1, lines, functions)] {
                prop_assert!(small.total_ns() < large.total_ns());
                prop_assert!(small.armed.is_ok() || large.armed.is_err());
            }
            let more = of(cores, lines, functions + 1);
            prop_assert!(small.is_cut_in_use() || !more.is_cut_in_use());
        }
    }
}
