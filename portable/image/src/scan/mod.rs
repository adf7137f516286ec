//! Looking for pages that need not be saved.

pub(crate) mod looks;
mod scouts;
mod stretch;
pub(crate) mod strided_fills;
