//! The proof that a record is complete and authentic.

use poorwill_image::{CutKey, Digest, SealingKey};
use poorwill_memory::{Page, checksum};
use poorwill_vault::Key;
use zerocopy::{FromBytes, IntoBytes};

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
}
