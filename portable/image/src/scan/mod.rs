//! Looking for pages that need not be saved.

pub(crate) mod looks;
pub(crate) mod progressions;
mod scouts;
mod stretch;
