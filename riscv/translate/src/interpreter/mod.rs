//! The interpreter.

pub(crate) mod atomic;
pub(crate) mod integer;
mod step;

use crate::hart::{Stop, VirtualHart};
use crate::host::Host;
use crate::trap::Trap;

/// Instructions between two looks for interrupts.
const LOOK_EVERY: u64 = 64;

/// How to go on after an instruction that has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// With the next instruction.
    Next,
    /// With a look for interrupts, which S-mode may have let in.
    Look,
    /// The turn ends.
    Stop(Stop),
}

impl VirtualHart {
    /// Runs at most `most` instructions.
    pub fn run(&mut self, host: &impl Host, most: u64) -> Stop {
        self.settle_shortcuts();
        let mut left = most;
        while left > 0 {
            self.take_interrupt(host);
            let round = left.min(LOOK_EVERY);
            let (done, went) = self.run_round(round, host);
            left -= done;
            self.counts.instructions += done;
            match went {
                Ok(Flow::Next | Flow::Look) => {}
                Ok(Flow::Stop(stop)) => return self.stopped(stop),
                Err(Trap::Exception(exception)) => {
                    self.counts.instructions -= 1;
                    self.counts.exceptions += 1;
                    self.enter_handler(exception.cause, exception.value);
                }
                Err(Trap::Stop(stop)) => {
                    self.counts.instructions -= 1;
                    return self.stopped(stop);
                }
            }
        }
        self.stopped(Stop::Turn)
    }

    /// Runs at most `most` instructions, and returns their number with what the last one has led to.
    fn run_round(&mut self, most: u64, host: &impl Host) -> (u64, Result<Flow, Trap>) {
        let mut left = most;
        while left > 0 {
            left -= 1;
            let bits = match self.fetch(host) {
                Ok(bits) => bits,
                Err(trap) => return (most - left, Err(trap)),
            };
            if self.execute_quickly(bits, host) {
                continue;
            }
            match self.execute_slowly(bits, host) {
                Ok(Flow::Next) => {}
                went => return (most - left, went),
            }
        }
        (most, Ok(Flow::Next))
    }

    /// Ends the turn: another hart may run now.
    pub(crate) fn stopped(&mut self, stop: Stop) -> Stop {
        self.reservation = None;
        stop
    }
}
