//! The bytes of an image (`docs/image-format.md`).

pub(crate) mod digest;
pub(crate) mod free;
pub(crate) mod header;
pub(crate) mod layout;
mod raw_header;
pub(crate) mod seal_mark;
pub(crate) mod state;
pub(crate) mod strided_fills;
