//! A cut at the OS's request: a sleep.

use thiserror::Error;

use super::go::give_up;
use super::guard::Prover;
use super::line::CutCause;
use super::reason::CutReason;
use super::stop::{CutCommitted, StopMachine, begin, run};

/// A machine whose OS asks for a cut. Its other harts are stopped. If the cut is refused, the OS
/// continues.
pub trait RequestMachine: StopMachine + Prover {
    /// After a refusal, lets quiet devices work again, and controllers send messages.
    fn resume(&self);
}

/// Why a machine is not cut at its OS's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoCut {
    /// The power fails. The machine will be cut for that reason instead, and the OS continues until
    /// then.
    #[error("the power fails")]
    PowerFails,
    /// Some state cannot be kept.
    #[error("{0}")]
    Refused(#[from] CutReason),
}

/// Cuts a machine at its OS's request. After a refusal the machine continues: it discards the begun
/// cut, and the next cut has another number.
///
/// # Errors
///
/// [`CutReason`]: the machine has not changed.
pub fn request<M: RequestMachine>(machine: &M) -> Result<CutCommitted, CutReason> {
    let begun = begin(machine);
    let cut = begun.and_then(|sequence| run(machine, sequence, CutCause::Requested));
    cut.inspect_err(|_| {
        machine.resume();
        give_up(machine, machine.record());
    })
}
