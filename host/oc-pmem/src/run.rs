//! Runs harts on a machine.

use alloc::vec;
use alloc::vec::Vec;

use crate::core_model::{Hart, Rules};
use crate::machine::{AnyMemory, Machine};
use crate::memory::beside::Beside;
use crate::memory::{Counts, Memory};
use crate::parameters::Parameters;
use crate::request::{Kind, Request, Source};
use crate::time::Time;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the last hart has ended.
    pub time: Time,
    /// When memory's devices have programmed all that was written until then.
    pub settled: Time,
    /// `time` in cycles.
    pub cycles: u64,
    /// When each hart has ended.
    pub harts: Vec<Time>,
    /// Executed instructions of all harts.
    pub instructions: u64,
    /// What the memory did.
    pub counts: Counts,
    /// Requests of all harts.
    pub requests: u64,
}

impl Outcome {
    /// Mean time of a read.
    #[must_use]
    pub fn read_time(&self) -> Time {
        Time(self.counts.read_time.0 / self.counts.reads.max(1))
    }

    /// What dead devices did; `None`: no read met one.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        let Counts {
            regenerated,
            contained,
            first_contained,
            ..
        } = self.counts;
        match (first_contained, regenerated) {
            (Some(first), _) => Some(Fault::Contained {
                reads: contained,
                first,
            }),
            (None, 0) => None,
            (None, reads) => Some(Fault::Regenerated { reads }),
        }
    }
}

/// What dead devices did to a run's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All data were right: parity gave the halves of dead devices.
    Regenerated {
        /// Reads with such a half.
        reads: u64,
    },
    /// Data were lost: reads returned the containment bit, which is a machine check for their hart.
    /// The model's harts go on, so times after the first one tell nothing of a real machine.
    Contained {
        /// Reads with the bit.
        reads: u64,
        /// When the first of these returned.
        first: Time,
    },
}

/// Runs the source's harts on the machine.
pub fn run(source: &mut impl Source, machine: Machine, parameters: &Parameters) -> Outcome {
    // One copy of the loop for each kind of memory, without a choice at each request.
    match machine.memory(parameters) {
        AnyMemory::InOrder(memory) => run_on(source, memory, parameters),
        AnyMemory::LightPc(memory) => run_on(source, memory, parameters),
        AnyMemory::PmemDimms(memory) => run_on(source, memory, parameters),
    }
}

/// Runs the source's harts on LegacyPC with OC-PMEM beside its DRAM: lines from
/// [`PERSISTENT`](crate::PERSISTENT) on are OC-PMEM's. The counts are OC-PMEM's.
pub(crate) fn run_beside(source: &mut impl Source, parameters: &Parameters) -> Outcome {
    run_on(source, Beside::new(parameters), parameters)
}

fn run_on(source: &mut impl Source, mut memory: impl Memory, parameters: &Parameters) -> Outcome {
    let rules = Rules::new(parameters);
    let mut harts = vec![Hart::default(); source.harts()];
    let mut next = Schedule::default();
    for (number, hart) in harts.iter_mut().enumerate() {
        next.times.push(NEVER);
        next.requests.push(IDLE);
        next.reach(source, number, hart, &rules);
    }
    let mut requests = 0;
    while let Some(number) = next.earliest() {
        let hart = &mut harts[number];
        hart.make(&next.requests[number], &rules, &mut memory);
        requests += 1;
        next.reach(source, number, hart, &rules);
    }
    let ends = harts.iter_mut().enumerate();
    let ends: Vec<_> = ends
        .map(|(number, hart)| hart.end(source.instructions(number), &rules))
        .collect();
    let time = ends.iter().copied().fold(Time::ZERO, Time::max);
    let counts = memory.counts();
    Outcome {
        time,
        settled: memory.flush(time),
        cycles: time.cycles(parameters.cycle()),
        instructions: (0..harts.len()).map(|hart| source.instructions(hart)).sum(),
        harts: ends,
        counts,
        requests,
    }
}

/// The time of a hart that has no more requests.
const NEVER: Time = Time(u64::MAX);

/// Its request, which is never made.
const IDLE: Request = Request {
    kind: Kind::Fence,
    line: 0,
    instructions: 0,
};

/// Each hart's next request, and when it is made.
#[derive(Debug, Default)]
struct Schedule {
    times: Vec<Time>,
    requests: Vec<Request>,
}

impl Schedule {
    fn reach(&mut self, source: &mut impl Source, number: usize, hart: &mut Hart, rules: &Rules) {
        self.times[number] = match source.next(number) {
            Some(request) => {
                self.requests[number] = request;
                hart.reach(&request, rules)
            }
            None => NEVER,
        };
    }

    /// The hart whose request is the earliest; of several, the first one.
    fn earliest(&self) -> Option<usize> {
        let mut found = (NEVER, None);
        for (hart, time) in self.times.iter().enumerate() {
            if *time < found.0 {
                found = (*time, Some(hart));
            }
        }
        found.1
    }
}
