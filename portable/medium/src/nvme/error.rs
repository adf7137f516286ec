use thiserror::Error;

/// The reason why a controller or a namespace cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NvmeError {
    /// The registers read as all ones.
    #[error("the NVMe controller's registers do not answer")]
    Absent,
    /// The controller lacks pages of 4 KiB, queues of 2 entries, or the NVM command set.
    #[error("the NVMe controller does not support {0}")]
    Unsupported(&'static str),
    /// The register range is too short.
    #[error("the NVMe controller has {given:#x} bytes of registers, but needs {needed:#x}")]
    Registers {
        /// The bytes up to the end of the doorbells.
        needed: u64,
        /// The bytes in the register range.
        given: u64,
    },
    /// The controller reports a fatal state (CSTS.CFS).
    #[error("the NVMe controller reports a fatal state")]
    Fatal,
    /// The controller was enabled, but did not become ready within its own limit.
    #[error("the NVMe controller is not ready after {0} ms")]
    NotReady(u32),
    /// The controller was disabled, but did not stop within its own limit. Its DMA was
    /// cut off by [`Registers::cut_dma`](super::Registers::cut_dma). Queue memory must
    /// not be used for other purposes before a reset.
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
        /// The duration of the wait.
        milliseconds: u32,
    },
    /// The controller completed an unknown command.
    #[error("the NVMe controller broke the protocol of its queues")]
    Protocol,
    /// The status of the persistent memory region (PMRSTS) says that it is not
    /// persistent.
    #[error("the NVMe controller's memory region is unhealthy (status {0:#x})")]
    Region(u16),
    /// There is no active namespace with this number.
    #[error("there is no NVMe namespace {0}")]
    NoNamespace(u32),
    /// The namespace's blocks have metadata or are not 512 to 4096 bytes long.
    #[error("NVMe namespace {0} has metadata, or blocks that are not 512 to 4096 bytes long")]
    Format(u32),
    /// Transfers of an earlier medium are still in flight, or it was stopped after an
    /// error. The controller must be started again.
    #[error("the NVMe controller was stopped or is busy; start it again")]
    Stopped,
}
