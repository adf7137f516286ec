//! What the firmware reads of a domain's own device tree.

use arrayvec::ArrayVec;

use crate::blob::open;
use crate::machine::DescriptionError;
use crate::reserved::{self, MAX_RESERVED, Reserved};

/// The ranges that a tree reserves, and its initial RAM disk.
///
/// # Errors
///
/// [`DescriptionError::Damaged`], [`DescriptionError::TooMany`].
pub fn reserved_of(blob: &[u8]) -> Result<ArrayVec<Reserved, MAX_RESERVED>, DescriptionError> {
    let tree = open(blob).ok_or(DescriptionError::Damaged)?;
    let mut all = ArrayVec::new();
    reserved::read(&tree, &mut all)?;
    Ok(all)
}
