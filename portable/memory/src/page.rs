use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The bytes of a page. All offsets and lengths on a medium are multiples of it.
pub const PAGE_BYTES: u64 = 4096;

/// The 64-bit words of a page.
pub const PAGE_WORDS: usize = 512;

/// One page of memory, aligned for DMA.
///
/// It consists of words, because on harts without misaligned access the compiler turns a
/// byte slice into byte loads. These would make scanning and hashing five times slower.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
pub struct Page(pub [u64; PAGE_WORDS]);

impl Page {
    /// A page of zeros.
    pub const ZERO: Page = Page([0; PAGE_WORDS]);

    /// Whether every byte is zero.
    ///
    /// Tests one cache line at a time. A used page is almost always nonzero in its first
    /// line, mostly in its first word. A zero page costs little more than its loads.
    #[must_use]
    #[inline]
    pub fn is_zero(&self) -> bool {
        let (lines, _) = self.0.as_chunks::<8>();
        self.0[0] == 0
            && lines
                .iter()
                .all(|line| line.iter().fold(0, |all, word| all | word) == 0)
    }

    /// The words of consecutive pages.
    #[must_use]
    pub fn words(pages: &[Page]) -> &[u64] {
        <[u64]>::ref_from_bytes(pages.as_bytes()).expect("pages are whole, aligned words")
    }

    /// The mutable words of consecutive pages.
    #[must_use]
    pub fn words_mut(pages: &mut [Page]) -> &mut [u64] {
        <[u64]>::mut_from_bytes(pages.as_mut_bytes()).expect("pages are whole, aligned words")
    }
}
