//! XXH64 with seed 0, the checksum of headers and records.
//!
//! Existing crates take bytes, which the compiler turns into byte loads on harts without
//! misaligned access (over thirty for each 32 bytes, measured). Our data consists of
//! aligned words and is hashed as words. The result is standard XXH64, tested against the
//! `twox-hash` crate.

use zerocopy::FromBytes;

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// The words of one round, one for each lane.
type Stripe = [u64; 4];

struct Hasher {
    lanes: Stripe,
    bytes: u64,
}

impl Hasher {
    const fn new() -> Self {
        Hasher {
            lanes: [P1.wrapping_add(P2), P2, 0, P1.wrapping_neg()],
            bytes: 0,
        }
    }

    fn stripe(&mut self, stripe: Stripe) {
        for (lane, word) in self.lanes.iter_mut().zip(stripe) {
            *lane = round(*lane, word);
        }
        self.bytes += size_of::<Stripe>() as u64;
    }

    /// Merges the lanes. The caller adds the remaining bytes, less than a stripe.
    fn fold(&self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let sum = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        let merge = |hash: u64, lane| (hash ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4);
        let folded = if self.bytes == 0 {
            P5
        } else {
            self.lanes.into_iter().fold(sum, merge)
        };
        folded.wrapping_add(self.bytes)
    }
}

/// The checksum of words as little-endian bytes.
#[must_use]
pub fn of_words(words: &[u64]) -> u64 {
    of_words_but(words, words.len())
}

/// Like [`of_words`], with word `blank` as zero: it holds the checksum itself.
#[must_use]
pub fn of_words_but(words: &[u64], blank: usize) -> u64 {
    let word = |number: usize| if number == blank { 0 } else { words[number] };
    let whole = words.len() / 4 * 4;
    let mut hasher = Hasher::new();
    for first in (0..whole).step_by(4) {
        hasher.stripe([
            word(first),
            word(first + 1),
            word(first + 2),
            word(first + 3),
        ]);
    }
    let rest = (words.len() - whole) as u64 * 8;
    let hash = hasher.fold().wrapping_add(rest);
    avalanche((whole..words.len()).fold(hash, |hash, number| tail_word(hash, word(number))))
}

/// The checksum of bytes. It is slow if they are not aligned to four, as in a device
/// tree.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> u64 {
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut hasher = Hasher::new();
    if let Ok(stripes) = <[[u32; 8]]>::ref_from_bytes(stripes.as_flattened()) {
        let half = |half: u32| u64::from(u32::from_le(half));
        for stripe in stripes {
            hasher.stripe(core::array::from_fn(|lane| {
                half(stripe[2 * lane]) | half(stripe[2 * lane + 1]) << 32
            }));
        }
    } else {
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<8>();
            hasher.stripe(core::array::from_fn(|lane| u64::from_le_bytes(words[lane])));
        }
    }
    let mut hash = hasher.fold().wrapping_add(rest.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash = tail_word(hash, u64::from_le_bytes(*word));
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(P1);
        hash = hash.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(P5);
        hash = hash.rotate_left(11).wrapping_mul(P1);
    }
    avalanche(hash)
}

/// The hash by which the record of a set names a domain.
#[must_use]
pub fn name_hash(name: &str) -> u64 {
    of_bytes(name.as_bytes())
}

#[inline(always)]
fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2))
        .rotate_left(31)
        .wrapping_mul(P1)
}

fn tail_word(hash: u64, word: u64) -> u64 {
    (hash ^ round(0, word))
        .rotate_left(27)
        .wrapping_mul(P1)
        .wrapping_add(P4)
}

fn avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;
    use twox_hash::XxHash64;

    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn matches_the_published_values() {
        assert_eq!(of_bytes(b""), 0xef46_db37_51d8_e999);
        assert_eq!(of_bytes(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(of_bytes(b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(of_words(&[]), of_bytes(b""));
        assert_eq!(name_hash("abc"), of_bytes(b"abc"));
    }

    proptest! {
        #[test]
        fn bytes_match_the_oracle(input: Vec<u8>) {
            // However they are aligned.
            for first in 0..input.len().min(4) {
                let bytes = &input[first..];
                prop_assert_eq!(of_bytes(bytes), XxHash64::oneshot(0, bytes));
            }
        }

        #[test]
        fn words_match_the_oracle(mut input: Vec<u64>, blank: usize) {
            prop_assert_eq!(of_words(&input), XxHash64::oneshot(0, &bytes(&input)));
            let blank = blank % (input.len() + 1);
            let with_blank = of_words_but(&input, blank);
            if let Some(word) = input.get_mut(blank) {
                *word = 0;
            }
            prop_assert_eq!(with_blank, XxHash64::oneshot(0, &bytes(&input)));
        }
    }
}
