//! The proof of all entries of a record.

use poorwill_image::Digest;
use poorwill_memory::checksum;

use super::layout::Place;
use super::line::Line;
use super::memory::CutMemory;
use super::proof::Proof;

/// The number of the message with all entries. A part's message has the part's number.
const ENTRIES: u64 = u64::MAX;

impl Proof {
    /// The digest of all entries; `None` if an entry is not of this cut.
    pub(super) fn of_entries(&self, memory: &impl CutMemory, sequence: u64) -> Option<Digest> {
        let layout = memory.layout();
        let lines = || (0..layout.parts()).map(|part| memory.line(Place::Part(part)));
        let is_of_cut = |line: Line| line.read_part().is_some_and(|(of, _)| of == sequence);
        if !lines().all(is_of_cut) {
            return None;
        }
        let head = [layout.parts() as u64, layout.pages() as u64];
        Some(match self {
            Proof::Checksums => {
                let join = |sum, line: Line| checksum::of_words(&[sum, line.checksum()]);
                let sum = lines().fold(checksum::of_words(&head), join);
                Digest::from_words([sum, 0])
            }
            Proof::Tags { key, .. } => {
                let head = [head[0], head[1], 0, 0, 0, 0, 0, 0];
                let entries = lines().map(|line| *line.words());
                key.tag(ENTRIES, core::iter::once(head).chain(entries))
            }
        })
    }
}
