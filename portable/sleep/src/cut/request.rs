//! A cut that the OS asks for: a sleep.

use thiserror::Error;

use super::go::give_up;
use super::guard::Prover;
use super::line::CutCause;
use super::reason::CutReason;
use super::stop::{CutCommitted, StopMachine, begin, run};

/// The machine whose OS asks for a cut. Its other harts are stopped. If the cut is refused, the OS
/// goes on.
pub trait RequestMachine: StopMachine + Prover {
    /// Has quiet devices work again, and controllers send messages, after a refusal.
    fn resume(&self);
}

/// Why a machine whose OS asked for a cut is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoCut {
    /// The power fails: the machine is cut for that, and the OS goes on until then.
    #[error("the power fails")]
    PowerFails,
    /// Some state cannot be kept.
    #[error("{0}")]
    Refused(#[from] CutReason),
}

/// Stops a machine whose OS asks for it. A machine that cannot be cut goes on: it gives up the
/// cut that has begun, and the next one has another number.
///
/// # Errors
///
/// [`CutReason`]: the machine is as it was.
pub fn request<M: RequestMachine>(machine: &M) -> Result<CutCommitted, CutReason> {
    let begun = begin(machine);
    let cut = begun.and_then(|sequence| run(machine, sequence, CutCause::Requested));
    cut.inspect_err(|_| {
        machine.resume();
        give_up(machine, machine.record());
    })
}
