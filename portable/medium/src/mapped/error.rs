use poorwill_memory::PAGE_BYTES;
use thiserror::Error;

/// Why a range of memory cannot be a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MappedError {
    /// The range does not begin at a page.
    #[error("the memory at {0:#x} does not begin at a multiple of {PAGE_BYTES} bytes")]
    Misaligned(u64),
    /// The range does not hold a single page, or wraps around.
    #[error("the memory has {0} bytes, less than a page")]
    TooSmall(u64),
    /// The device behind the range does not answer.
    #[error("no device answers behind the memory at {0:#x}; is it still there?")]
    Absent(u64),
}
