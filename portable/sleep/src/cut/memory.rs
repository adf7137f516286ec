//! The memory of a cut's record.

use poorwill_image::Digest;

use super::layout::{Layout, Place};
use super::line::Line;
use super::proof::Proof;

/// The record, in the firmware's own part of RAM.
pub trait CutMemory {
    /// The layout of the record.
    fn layout(&self) -> Layout;

    /// Reads the line at a place, as harts see it.
    fn line(&self, place: Place) -> Line;

    /// Stores a line. It may stay in a cache.
    fn store(&self, place: Place, line: &Line);

    /// Writes the line at a place back. When this returns, the line is in memory, and so is each
    /// earlier write-back.
    fn write_back(&self, place: Place);

    /// The digest of the first `bytes` bytes of a part; `None` if the part is shorter.
    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest>;
}

/// Stores a line and writes it back.
pub(super) fn put(memory: &impl CutMemory, place: Place, line: &Line) {
    memory.store(place, line);
    memory.write_back(place);
}
