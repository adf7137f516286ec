//! XXH64 with seed 0, over aligned words.

use poorwill_memory::Page;

/// The checksum of words, taken as little-endian bytes.
#[must_use]
pub fn of_words(words: &[u64]) -> u64 {
    let _ = words;
    todo!()
}

/// The checksum of bytes; slow, for short things.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> u64 {
    let _ = bytes;
    todo!()
}

/// Takes pages one by one.
#[derive(Clone, Debug, Default)]
pub struct Hasher {}

impl Hasher {
    /// Nothing taken yet.
    #[must_use]
    pub fn new() -> Self {
        Self {}
    }

    /// Takes a page.
    pub fn page(&mut self, page: &Page) {
        let _ = page;
        todo!()
    }

    /// The checksum of all pages taken.
    #[must_use]
    pub fn finish(&self) -> u64 {
        todo!()
    }
}
