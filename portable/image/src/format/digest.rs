use poorwill_memory::{Page, PageHasher};

/// What a part of an image is recognised by: its tag where it is sealed; where it is
/// not, its hash and zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub(crate) [u64; 2]);

impl Digest {
    pub(crate) const ZERO: Digest = Digest([0; 2]);

    pub(crate) const fn of(hasher: &PageHasher) -> Digest {
        Digest([hasher.finish(), 0])
    }

    /// Of plain pages.
    pub(crate) fn of_pages(pages: &[Page]) -> Digest {
        let mut hasher = PageHasher::new();
        pages.iter().for_each(|page| hasher.page(page));
        Digest::of(&hasher)
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Digest {
        let (words, _) = bytes.as_chunks();
        Digest([0, 1].map(|word: usize| u64::from_le_bytes(words[word])))
    }

    /// One that these words stand for, as in a line of a cut's record.
    #[must_use]
    pub const fn from_words(words: [u64; 2]) -> Digest {
        Digest(words)
    }

    /// The words.
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        self.0
    }

    /// The 16 bytes that stand for it in an image.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0[0].to_le_bytes());
        bytes[8..].copy_from_slice(&self.0[1].to_le_bytes());
        bytes
    }
}
