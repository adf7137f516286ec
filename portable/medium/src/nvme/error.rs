use thiserror::Error;

/// Why a controller or a namespace cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NvmeError {
    /// The registers read as all ones.
    #[error("the NVMe controller's registers do not answer")]
    Absent,
    /// The controller does not support pages of 4 KiB, or queues of 2 entries,
    /// or the NVM command set.
    #[error("the NVMe controller does not support {0}")]
    Unsupported(&'static str),
    /// The registers end before what they must hold.
    #[error("the NVMe controller has {given:#x} bytes of registers, not {needed:#x}")]
    Registers {
        /// Bytes that the controller's doorbells need.
        needed: u64,
        /// Bytes there are.
        given: u64,
    },
    /// The controller reports a fatal state (CSTS.CFS).
    #[error("the NVMe controller reports a fatal state")]
    Fatal,
    /// The controller was enabled and did not become ready in its own time.
    #[error("the NVMe controller is not ready after {0} ms")]
    NotReady(u32),
    /// The controller was disabled and did not stop in its own time. Its DMA
    /// was cut off by [`Registers::cut_dma`](super::Registers::cut_dma); queue
    /// memory must not be used for anything else before a reset.
    #[error("the NVMe controller does not stop within {0} ms")]
    WillNotStop(u32),
    /// The controller did not finish shutting down.
    #[error("the NVMe controller has not shut down after {0} ms")]
    WillNotShutDown(u32),
    /// The controller refused an admin command.
    #[error("NVMe admin command {opcode:#04x} failed with status {status:#x}")]
    Command {
        /// The command's opcode.
        opcode: u8,
        /// Status code type (bits 10:8) and status code (bits 7:0).
        status: u16,
    },
    /// The controller did not answer an admin command.
    #[error("no answer to NVMe admin command {opcode:#04x} within {milliseconds} ms")]
    TimedOut {
        /// The command's opcode.
        opcode: u8,
        /// How long it was waited for.
        milliseconds: u32,
    },
    /// The controller completed a command that was not submitted.
    #[error("the NVMe controller broke the protocol of its queues")]
    Protocol,
    /// The persistent memory region reports, by this status (PMRSTS), that it is not
    /// persistent.
    #[error("the NVMe controller's memory region is not in order (status {0:#x})")]
    Region(u16),
    /// There is no active namespace of this number.
    #[error("there is no NVMe namespace {0}")]
    NoNamespace(u32),
    /// The namespace's blocks carry metadata or are not of 512 to 4096 bytes.
    #[error("NVMe namespace {0} is formatted with metadata or with blocks beyond 4096 bytes")]
    Format(u32),
    /// Transfers of an earlier medium are still in flight, or it was stopped after an error; the
    /// controller must be started again.
    #[error("the NVMe controller was stopped or is busy; start it anew")]
    Stopped,
}
