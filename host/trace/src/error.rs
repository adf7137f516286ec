use std::io;

use thiserror::Error;

use crate::VERSION;

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is another file, or a trace that was not finished.
    #[error("it is no trace")]
    NoTrace,
    /// It has another version.
    #[error("it has version {0} of the format, and this program reads version {VERSION}")]
    Version(u32),
    /// The header is damaged.
    #[error("its header is damaged")]
    Header,
    /// It ends too early.
    #[error("it ends early, in block {0}")]
    Short(u64),
    /// A block is damaged.
    #[error("its block {0} is damaged")]
    Block(u64),
    /// The contents are not those that the header counts.
    #[error("its contents are not those of its header: {0}")]
    Contents(&'static str),
}
