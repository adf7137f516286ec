//! What the programs have in common.

use crate::{arch::kernel_space::KernelSpace, random::Random};

/// A program, its state and its inputs.
pub(super) trait Program {
    const NAME: &str;

    /// Makes state and inputs anew.
    fn begin(random: &mut Random, space: &KernelSpace) -> Self;

    /// Links its parts, at the address where it runs.
    fn settle(&mut self) {}

    /// Runs a round, and returns some of its results. The code must reach nothing by an absolute address:
    /// no table of jumps or pointers, no trait object.
    fn round(&mut self, round: usize) -> u64;
}
