//! Traces: the memory requests of harts after their caches, in a file.
//!
//! QEMU's plugin writes one with [`TraceFile`]. [`Reader`] returns its records, and [`Requests`]
//! gives them to a model, each hart's apart.
//!
//! A file is a [`Header`] with a line for each hart, and blocks. A block has its two lengths, a
//! checksum of its compressed contents, and these, by LZ4. Numbers are little-endian. The
//! contents are [records](Record): a byte with kind and flags, and numbers of 7 bits a byte. Each
//! block can be read without the others.
#![forbid(unsafe_code)]

mod block;
mod coding;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod file;
mod header;
mod reader;
mod requests;
mod returns;
mod writer;

pub use coding::Record;
pub use error::TraceError;
pub use file::TraceFile;
pub use header::{Counted, Digest, HartCounts, Header, Setting};
pub use poorwill_oc_pmem::Kind;
pub use reader::Reader;
pub use requests::{Requests, run};
pub use returns::{CLASSES, Returns, class};
pub use writer::Writer;

/// The version of the format.
pub const VERSION: u32 = 2;

/// The most bytes of a block's contents.
const MOST_OF_BLOCK: usize = 1 << 16;
