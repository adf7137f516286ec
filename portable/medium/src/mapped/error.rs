use poorwill_memory::PAGE_BYTES;
use thiserror::Error;

/// The reason why a range of memory cannot be a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MappedError {
    /// The range does not start at a page boundary.
    #[error("the memory at {0:#x} does not start at a multiple of {PAGE_BYTES} bytes")]
    Misaligned(u64),
    /// The range is shorter than a page, or wraps around.
    #[error("the memory has {0} bytes; a medium needs at least a page")]
    TooSmall(u64),
    /// The device with the range does not answer.
    #[error("no device answers at the memory at {0:#x}; check whether it is still connected")]
    Absent(u64),
}
