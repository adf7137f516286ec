//! What stands before a block's compressed contents.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BlockHead {
    /// Bytes of the compressed contents.
    pub(crate) packed: U32,
    /// Bytes of the contents.
    pub(crate) length: U32,
    /// Checksum of the compressed contents.
    pub(crate) checksum: U64,
}
