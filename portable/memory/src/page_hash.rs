//! rapidhash (version 3) of pages, which detects damage in a plain image.
//!
//! A wake hashes all loaded words, so the hash limits its speed. One multiplication adds
//! two words, in seven instructions; XXH64 needs fourteen. This is our own
//! implementation, for the reason in [`checksum`](crate::checksum), and only for the
//! length of a page. The result is the published one, tested against the `rapidhash`
//! crate.

use core::sync::atomic::Ordering;

use crate::{PAGE_BYTES, Page, PageWords};

/// The published secrets.
const SECRETS: [u64; 7] = [
    0x2d35_8dcc_aa6c_78a5,
    0x8bb8_4b93_962e_acc9,
    0x4b33_a62e_d433_d4a3,
    0x4d5a_2da5_1de1_aa47,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x90ed_1765_281c_388c,
];
const LAST_SECRET: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The words of a round: two for each lane.
const LINE: usize = 2 * SECRETS.len();
/// The bytes of a page after the last whole line.
const REST: u64 = PAGE_BYTES % (8 * LINE as u64);

/// The hash of a single page, with seed 0: harts hash pages in any order.
#[must_use]
pub fn page_hash(page: &Page) -> u64 {
    hash(&page.0, |word| *word)
}

/// The hash of a page that other harts may read at the same time.
#[must_use]
pub fn page_words_hash(words: &PageWords) -> u64 {
    hash(words, |word| word.load(Ordering::Relaxed))
}

/// Hashes the hashes of a sequence of pages: the hash so far is the seed of the next
/// step, and the first seed is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageHasher(u64);

impl PageHasher {
    /// The hash of no pages.
    #[must_use]
    pub const fn new() -> Self {
        PageHasher(0)
    }

    /// Appends a page.
    pub fn page(&mut self, page: &Page) {
        self.hashed_page(page_hash(page));
    }

    /// Appends a page by its hash.
    pub fn hashed_page(&mut self, hash: u64) {
        const BYTES: u64 = size_of::<u64>() as u64;
        let seed = seeded(self.0) ^ BYTES;
        // A hash has 8 bytes, so its first and its last 8 bytes are the same.
        self.0 = finished(hash, hash ^ seed, BYTES);
    }

    /// The hash of all appended pages; 0: no pages.
    #[must_use]
    pub const fn finish(&self) -> u64 {
        self.0
    }
}

const fn seeded(seed: u64) -> u64 {
    seed ^ mix(seed ^ SECRETS[2], SECRETS[1])
}

#[inline(always)]
fn hash<W>(page: &[W; 512], value: impl Fn(&W) -> u64) -> u64 {
    const SEED: u64 = seeded(0);
    let (lines, rest) = page.as_chunks::<LINE>();
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g] = [SEED; SECRETS.len()];
    for line in lines {
        let turn = |lane: u64, number: usize| {
            let (first, second) = (value(&line[2 * number]), value(&line[2 * number + 1]));
            mix(first ^ SECRETS[number], second ^ lane)
        };
        a = turn(a, 0);
        b = turn(b, 1);
        c = turn(c, 2);
        d = turn(d, 3);
        e = turn(e, 4);
        f = turn(f, 5);
        g = turn(g, 6);
    }
    let mut lane = a ^ b ^ c ^ d ^ e ^ f ^ g;
    // The code below adds the last pair of words.
    let (pairs, _) = rest.as_chunks::<2>();
    for ([first, second], secret) in pairs.iter().zip([SECRETS[2], SECRETS[2], SECRETS[1]]) {
        lane = mix(value(first) ^ secret, value(second) ^ lane);
    }
    finished(value(&page[510]) ^ REST, value(&page[511]) ^ lane, REST)
}

/// Adds the last pair of words, and mixes; `rest` bytes remained after the last line.
#[inline(always)]
fn finished(first: u64, second: u64, rest: u64) -> u64 {
    let (low, high) = product(first ^ SECRETS[1], second);
    mix(low ^ LAST_SECRET, high ^ SECRETS[1] ^ rest)
}

#[inline(always)]
const fn mix(first: u64, second: u64) -> u64 {
    let (low, high) = product(first, second);
    low ^ high
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the result is the two halves of the product"
)]
#[inline(always)]
const fn product(first: u64, second: u64) -> (u64, u64) {
    let product = first as u128 * second as u128;
    (product as u64, (product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use core::slice::from_ref;
    use std::vec::Vec;

    use proptest::prelude::*;
    use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;

    fn hashed(pages: &[Page]) -> u64 {
        let mut hasher = PageHasher::new();
        pages.iter().for_each(|page| hasher.page(page));
        hasher.finish()
    }

    proptest! {
        #[test]
        fn pages_match_the_oracle(seeds in prop::collection::vec(any::<u64>(), 0..4)) {
            let page = |seed: u64| Page(core::array::from_fn(|word| seed.wrapping_mul(word as u64 + 1)));
            let pages: Vec<Page> = seeds.into_iter().map(page).collect();
            let hash = |seed, bytes: &[u8]| rapidhash_v3_seeded(bytes, &RapidSecrets::seed_cpp(seed));
            for page in &pages {
                prop_assert_eq!(page_hash(page), hash(0, page.as_bytes()));
            }
            let oracle = pages.iter().fold(0, |seed, page| hash(seed, &page_hash(page).to_le_bytes()));
            prop_assert_eq!(hashed(&pages), oracle);
        }

        #[test]
        fn every_bit_counts(word in 0_usize..512, bit in 0_u32..64, fill: u64) {
            let page = Page([fill; 512]);
            let mut other = page.clone();
            other.0[word] ^= 1 << bit;
            prop_assert_ne!(hashed(from_ref(&page)), hashed(from_ref(&other)));
            prop_assert_ne!(hashed(&[page.clone(), other.clone()]), hashed(&[other, page]));
        }
    }

    #[test]
    fn pages_of_zeros_are_counted() {
        let zeros = |count| hashed(&std::vec![Page::new_zeroed(); count]);
        assert_eq!(zeros(0), 0);
        assert!(zeros(1) != 0 && zeros(1) != zeros(2) && zeros(2) != zeros(3));
    }
}
