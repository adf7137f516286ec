//! A hart: an instruction a cycle, until a miss holds it back.

use arrayvec::ArrayVec;

use crate::memory::Memory;
use crate::parameters::{Name, Parameters};
use crate::request::{Kind, Request};
use crate::time::Time;

/// The most outstanding misses.
const MOST_MISSES: usize = 64;

/// The rules of all harts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    cycle: Time,
    window: u64,
    misses: usize,
}

impl Rules {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Rules {
            cycle: parameters.cycle(),
            window: parameters.get(Name::Window),
            misses: parameters.count(Name::Misses),
        }
    }
}

/// A miss that memory has not answered yet.
#[derive(Clone, Copy, Debug)]
struct Miss {
    /// The number of its instruction.
    instruction: u64,
    done: Time,
    /// Whether later instructions need it: a load's.
    holds: bool,
}

/// A hart on its way through its requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hart {
    /// The time of instruction number `executed`.
    now: Time,
    executed: u64,
    misses: ArrayVec<Miss, MOST_MISSES>,
    /// Whether it has written lines back since its last fence.
    has_flushed: bool,
}

impl Hart {
    /// Executes instructions up to number `target`; loads hold it back at the window's end.
    fn execute(&mut self, target: u64, rules: &Rules) {
        for at in 0..self.misses.len() {
            let miss = self.misses[at];
            let needs = miss.instruction + rules.window;
            if miss.holds && needs > self.executed && needs <= target {
                self.now += rules.cycle * (needs - self.executed);
                self.now = self.now.max(miss.done);
                self.executed = needs;
            }
        }
        self.now += rules.cycle * (target - self.executed);
        self.executed = target;
        let now = self.now;
        self.misses.retain(|miss| miss.done > now);
    }

    /// Waits until one of its misses can be added.
    fn await_room(&mut self, rules: &Rules) {
        while self.misses.len() >= rules.misses {
            let done = self.misses.iter().map(|miss| miss.done);
            self.now = done.min().unwrap_or(self.now).max(self.now);
            let now = self.now;
            self.misses.retain(|miss| miss.done > now);
        }
    }

    /// Executes up to a request; the time at which it is made.
    pub(crate) fn reach(&mut self, request: &Request, rules: &Rules) -> Time {
        self.execute(self.executed + request.instructions, rules);
        match request.kind {
            Kind::Load | Kind::Store => self.await_room(rules),
            Kind::Fence => self.drain(),
            Kind::Fetch | Kind::WriteBack | Kind::Flush => {}
        }
        self.now
    }

    /// Makes the reached request.
    pub(crate) fn make(&mut self, request: &Request, rules: &Rules, memory: &mut impl Memory) {
        match request.kind {
            Kind::Load | Kind::Store => {
                let done = memory.read(self.now, request.line);
                if rules.window == 0 {
                    self.now = done;
                    return;
                }
                self.misses.push(Miss {
                    instruction: self.executed,
                    done,
                    holds: request.kind == Kind::Load,
                });
            }
            Kind::Fetch => self.now = memory.read(self.now, request.line),
            Kind::WriteBack => self.now = memory.write(self.now, request.line),
            Kind::Flush => {
                self.now = memory.write(self.now, request.line);
                self.has_flushed = true;
            }
            Kind::Fence if self.has_flushed => {
                self.now = memory.flush(self.now);
                self.has_flushed = false;
            }
            Kind::Fence => {}
        }
    }

    /// Waits for all misses.
    fn drain(&mut self) {
        let done = self.misses.drain(..).map(|miss| miss.done);
        self.now = done.fold(self.now, Time::max);
    }

    /// Executes its last instructions; the time of its end.
    pub(crate) fn end(&mut self, instructions: u64, rules: &Rules) -> Time {
        self.execute(instructions.max(self.executed), rules);
        self.drain();
        self.now
    }
}
