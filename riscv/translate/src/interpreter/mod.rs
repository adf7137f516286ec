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
        let mut left = most;
        while left > 0 {
            self.take_interrupt(host);
            let round = left.min(LOOK_EVERY);
            for number in 1..=round {
                match self.step(host) {
                    Ok(Flow::Next) => self.counts.instructions += 1,
                    Ok(Flow::Look) => {
                        self.counts.instructions += 1;
                        left -= number;
                        break;
                    }
                    Ok(Flow::Stop(stop)) => {
                        self.counts.instructions += 1;
                        return self.stopped(stop);
                    }
                    Err(Trap::Exception(exception)) => {
                        self.counts.exceptions += 1;
                        self.enter_handler(exception.cause, exception.value);
                    }
                    Err(Trap::Stop(stop)) => return self.stopped(stop),
                }
                if number == round {
                    left -= round;
                }
            }
        }
        self.stopped(Stop::Turn)
    }

    /// Ends the turn: another hart may run now.
    pub(crate) fn stopped(&mut self, stop: Stop) -> Stop {
        self.reservation = None;
        stop
    }
}
