use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes in a page. Every offset and length on a medium is a multiple of it.
pub const PAGE_BYTES: u64 = 4096;

/// 64-bit words in a page.
pub const PAGE_WORDS: usize = 512;

/// One page of memory, aligned as the hardware wants it for DMA.
///
/// Held as words, not bytes: on harts without misaligned access the compiler
/// turns a byte slice into byte loads, which makes scanning and hashing five
/// times slower.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
pub struct Page(pub [u64; PAGE_WORDS]);

impl Page {
    /// A page of zeros.
    pub const ZERO: Page = Page([0; PAGE_WORDS]);

    /// Whether every byte is zero.
    ///
    /// Tests a cache line at a time: a page in use almost always differs from zero in its first
    /// line, mostly in its first word, and a zero page costs little more than its loads.
    #[must_use]
    #[inline]
    pub fn is_zero(&self) -> bool {
        let (lines, _) = self.0.as_chunks::<8>();
        self.0[0] == 0
            && lines
                .iter()
                .all(|line| line.iter().fold(0, |all, word| all | word) == 0)
    }

    /// Consecutive pages as one run of words.
    #[must_use]
    pub fn words(pages: &[Page]) -> &[u64] {
        <[u64]>::ref_from_bytes(pages.as_bytes()).expect("pages are whole, aligned words")
    }

    /// Consecutive pages as one run of words, to be changed.
    #[must_use]
    pub fn words_mut(pages: &mut [Page]) -> &mut [u64] {
        <[u64]>::mut_from_bytes(pages.as_mut_bytes()).expect("pages are whole, aligned words")
    }
}
