//! Why the machine does not start.

use poorwill_devicetree::DescriptionError;
use poorwill_domain::FwDynamicError;
use poorwill_hart::WrongState;
use thiserror::Error;

use super::machine::StartError;
use super::next_stage::NextStageError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum BootError {
    #[error("{0}")]
    FwDynamic(#[from] FwDynamicError),
    #[error("hart {0} of a domain's next stage has not arrived")]
    NotArrived(u64),
    #[error("{0}")]
    NextStage(#[from] NextStageError),
    #[error("its device tree lies in another domain's memory, which is not as it was loaded")]
    ForeignTree,
    #[error("{0}")]
    Description(#[from] DescriptionError),
    #[error("{0}")]
    Machine(#[from] StartError),
    #[error("hart {0} may not boot the machine, and no hart has arrived that may")]
    NoBootHart(u64),
    /// A hart that the firmware has not started is running.
    #[error("hart {0} is running already")]
    NotStopped(u64),
    /// The hart for the next stage cannot be started; only the boot hart could have started it.
    #[error("the boot hart cannot be started: {0}")]
    Start(#[from] WrongState),
}

impl BootError {
    /// Returns whether a reset may help. The others come from what earlier stages left, which is the
    /// same after a reset.
    pub(super) fn may_pass(self) -> bool {
        match self {
            BootError::Machine(error) => error.may_pass(),
            BootError::NotArrived(_)
            | BootError::NoBootHart(_)
            | BootError::NotStopped(_)
            | BootError::Start(_) => true,
            BootError::FwDynamic(_)
            | BootError::NextStage(_)
            | BootError::ForeignTree
            | BootError::Description(_) => false,
        }
    }
}
