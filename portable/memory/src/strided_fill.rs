use core::sync::atomic::Ordering;

use crate::os_memory::PageWords;
use crate::page::{PAGE_WORDS, Page};

/// The 64-bit words of a row.
pub const ROW_WORDS: usize = 8;

const ROWS: u64 = (PAGE_WORDS / ROW_WORDS) as u64;

/// A page of rows of eight words. Each row is the previous one plus a constant step, word
/// by word and without carry. An array of equal structures looks like this: for example
/// Linux's `struct page`, 64 bytes for each page of memory, while it is unused.
#[derive(Clone, Copy, Debug, Eq)]
pub struct StridedFill {
    /// The page's first row.
    pub row: [u64; ROW_WORDS],
    /// The difference from each row to the next.
    pub step: [u64; ROW_WORDS],
}

impl StridedFill {
    /// The strided fill in `page`, if the page is one.
    ///
    /// Almost all other pages fail at the first word of the third row.
    #[must_use]
    #[inline]
    pub fn of(page: &Page) -> Option<Self> {
        let (rows, _) = page.0.as_chunks::<ROW_WORDS>();
        let [first, second, third, ..] = rows else {
            return None;
        };
        if third[0].wrapping_sub(second[0]) != second[0].wrapping_sub(first[0]) {
            return None;
        }
        let found = StridedFill::begun(page);
        (is_same(&difference(third, second), &found.step) && found.makes(page)).then_some(found)
    }

    /// The strided fill that the page's first two rows define. Other rows are not
    /// checked.
    #[must_use]
    #[inline]
    pub fn begun(page: &Page) -> Self {
        let (rows, _) = page.0.as_chunks::<ROW_WORDS>();
        let (row, second) = (&rows[0], &rows[1]);
        StridedFill {
            row: *row,
            step: difference(second, row),
        }
    }

    /// The strided fill of the page `pages` pages later.
    #[must_use]
    pub fn after(&self, pages: u64) -> Self {
        let rows = pages.wrapping_mul(ROWS);
        StridedFill {
            row: core::array::from_fn(|word| {
                self.row[word].wrapping_add(self.step[word].wrapping_mul(rows))
            }),
            step: self.step,
        }
    }

    /// Whether `page` has these contents.
    ///
    /// Compares one column of words at a time. That needs few registers, and takes an
    /// emulator, which keeps few registers across loads, a third of the time.
    #[must_use]
    pub fn makes(&self, page: &Page) -> bool {
        let (rows, _) = page.0.as_chunks::<ROW_WORDS>();
        (0..ROW_WORDS).all(|word| {
            let (mut wanted, step) = (self.row[word], self.step[word]);
            let (eights, _) = rows.as_chunks::<8>();
            let differ = eights.iter().fold(0, |differ, eight| {
                eight.iter().fold(differ, |differ, row| {
                    let difference = row[word] ^ wanted;
                    wanted = wanted.wrapping_add(step);
                    differ | difference
                })
            });
            differ == 0
        })
    }

    /// Fills a page by columns, like [`Self::makes`].
    pub fn fill(&self, page: &PageWords) {
        let (rows, _) = page.as_chunks::<ROW_WORDS>();
        let (eights, _) = rows.as_chunks::<8>();
        for word in 0..ROW_WORDS {
            let (mut value, step) = (self.row[word], self.step[word]);
            for eight in eights {
                for row in eight {
                    row[word].store(value, Ordering::Relaxed);
                    value = value.wrapping_add(step);
                }
            }
        }
    }
}

impl PartialEq for StridedFill {
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.row, &other.row) && is_same(&self.step, &other.step)
    }
}

/// Compares word by word. The compiler would compare arrays as bytes, with a call that
/// takes fifty times as long.
fn is_same(row: &[u64; ROW_WORDS], other: &[u64; ROW_WORDS]) -> bool {
    let words = row.iter().zip(other);
    words.fold(0, |differ, (word, other)| differ | (word ^ other)) == 0
}

fn difference(row: &[u64; ROW_WORDS], before: &[u64; ROW_WORDS]) -> [u64; ROW_WORDS] {
    core::array::from_fn(|word| row[word].wrapping_sub(before[word]))
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;

    use proptest::prelude::*;

    use super::*;

    fn page(strided_fill: &StridedFill) -> Page {
        let words: PageWords = [const { AtomicU64::new(!0) }; PAGE_WORDS];
        strided_fill.fill(&words);
        Page(words.map(AtomicU64::into_inner))
    }

    proptest! {
        #[test]
        fn a_page_that_it_fills_is_one(row: [u64; ROW_WORDS], step: [u64; ROW_WORDS]) {
            let strided_fill = StridedFill { row, step };
            let page = page(&strided_fill);
            prop_assert!(strided_fill.makes(&page));
            prop_assert_eq!(StridedFill::of(&page), Some(strided_fill));
        }

        #[test]
        fn one_other_bit_makes_it_none(
            row: [u64; ROW_WORDS],
            step: [u64; ROW_WORDS],
            word in 0..PAGE_WORDS,
            bit in 0..64,
        ) {
            let strided_fill = StridedFill { row, step };
            let mut page = page(&strided_fill);
            page.0[word] ^= 1u64 << bit;
            prop_assert!(!strided_fill.makes(&page));
            prop_assert_eq!(StridedFill::of(&page), None);
        }

        #[test]
        fn it_goes_on_from_page_to_page(row: [u64; ROW_WORDS], step: [u64; ROW_WORDS], more in 0u64..9) {
            let first = StridedFill { row, step };
            let last = page(&first.after(more)).0;
            let next: [u64; ROW_WORDS] = core::array::from_fn(|word| {
                last[PAGE_WORDS - ROW_WORDS + word].wrapping_add(step[word])
            });
            prop_assert_eq!(first.after(more + 1).row, next);
        }
    }

    #[test]
    fn a_page_of_one_value_is_one() {
        let wanted = StridedFill {
            row: [!0; ROW_WORDS],
            step: [0; ROW_WORDS],
        };
        assert_eq!(StridedFill::of(&Page([!0; PAGE_WORDS])), Some(wanted));
    }
}
