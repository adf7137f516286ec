use poorwill_memory::{Page, PageHasher};

/// A digest of a part of an image: the tag of a sealed part, or the hash of a plain one
/// and zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub(crate) [u64; 2]);

impl Digest {
    pub(crate) const ZERO: Digest = Digest([0; 2]);

    pub(crate) const fn of(hasher: &PageHasher) -> Digest {
        Digest([hasher.finish(), 0])
    }

    pub(crate) fn of_pages(pages: &[Page]) -> Digest {
        let mut hasher = PageHasher::new();
        pages.iter().for_each(|page| hasher.page(page));
        Digest::of(&hasher)
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Digest {
        let (words, _) = bytes.as_chunks();
        Digest([0, 1].map(|word: usize| u64::from_le_bytes(words[word])))
    }

    /// The digest with these words, for example from a line of a cut's record.
    #[must_use]
    pub const fn from_words(words: [u64; 2]) -> Digest {
        Digest(words)
    }

    /// The digest as two words.
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        self.0
    }

    /// The 16 bytes of the digest in an image.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0[0].to_le_bytes());
        bytes[8..].copy_from_slice(&self.0[1].to_le_bytes());
        bytes
    }
}
