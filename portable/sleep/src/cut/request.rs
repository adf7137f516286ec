//! A cut that the machine asks for: a sleep.

use thiserror::Error;

use super::go::give_up;
use super::guard::Prover;
use super::line::CutCause;
use super::reason::CutReason;
use super::stop::{CutCommitted, Signalled, StopMachine};

/// The machine that asks to be cut. Its other harts are stopped, and whatever keeps it from
/// being cut, its OS goes on.
pub trait RequestMachine: StopMachine + Prover {
    /// Has devices that were quieted work again, and controllers that were shut send messages,
    /// where nothing came of it.
    fn resume(&self);
}

/// Why a machine that asked for it is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoCut {
    /// The power fails: it is cut for that, and the OS is to go on until it is.
    #[error("the power fails")]
    PowerFails,
    /// Something of it cannot be kept.
    #[error("{0}")]
    Refused(#[from] CutReason),
}

/// Stops a machine that asked for it. Unlike one whose power fails it may go on where it
/// cannot be cut: the cut that was begun is given up, and the next has another number.
///
/// # Errors
///
/// [`CutReason`]: everything is as it was.
pub fn request<M: RequestMachine>(machine: &M) -> Result<CutCommitted, CutReason> {
    let stopped = Signalled::begin(machine, CutCause::Requested).and_then(Signalled::stop);
    stopped.inspect_err(|_| {
        machine.resume();
        give_up(machine, machine.record());
    })
}
