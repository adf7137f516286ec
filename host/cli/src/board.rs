//! A board, as the firmware would find it in a device tree.

mod fence_findings;
mod fences;
mod findings;
mod read;
mod sleeps;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use fences::Assumed;
pub(crate) use read::Board;
