//! The proof that a record is complete and authentic.

use poorwill_image::{CutKey, Digest, SealingKey};
use poorwill_memory::{Page, checksum};
use poorwill_vault::Key;
use zerocopy::{FromBytes, IntoBytes};

use super::CutMemory;
use super::layout::Place;
use super::line::Line;

/// The proof of the record of one cut.
#[derive(Debug)]
pub enum Proof {
    /// Checksums, which detect accidents. They are for machines without a vault.
    Checksums,
    /// Tags, which only the owner of the vault's key can make.
    Tags {
        /// The number of the cut, from the vault.
        number: u64,
        /// The key of the cut.
        key: CutKey,
    },
}

/// The number of the message with all entries. A part's message has the part's number.
const ENTRIES: u64 = u64::MAX;

impl Proof {
    /// Tags for the cut with this number, under the vault's key.
    #[must_use]
    pub fn tags(key: &Key, number: u64) -> Self {
        let key = CutKey::new(&SealingKey::new(*key.bytes()), number);
        Proof::Tags { number, key }
    }

    /// The number of the cut, if it is from a vault.
    #[must_use]
    pub const fn number(&self) -> Option<u64> {
        match self {
            Proof::Checksums => None,
            Proof::Tags { number, .. } => Some(*number),
        }
    }

    /// Whether these are tags.
    pub(super) const fn is_tags(&self) -> bool {
        matches!(self, Proof::Tags { .. })
    }

    /// The digest of the first `bytes` bytes of a part; `None` if the part is shorter.
    #[must_use]
    pub fn of_part(&self, part: usize, pages: &[Page], bytes: u64) -> Option<Digest> {
        let all = pages.as_bytes();
        let bytes = usize::try_from(bytes).ok()?;
        match self {
            Proof::Checksums => {
                let sum = checksum::of_bytes(all.get(..bytes)?);
                Some(Digest::from_words([sum, 0]))
            }
            Proof::Tags { key, .. } => {
                // This includes all bytes of the last word: they are in the record, and do not
                // change.
                let words = all.get(..bytes.checked_next_multiple_of(8)?)?;
                let words = <[u64]>::ref_from_bytes(words).ok()?;
                Some(key.tag(part as u64, [words]))
            }
        }
    }

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
