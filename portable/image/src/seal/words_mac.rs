//! Poly1305 (RFC 8439) over aligned words, in 64-bit arithmetic.
//!
//! The record of a cut must be authenticated while the power fails, so speed matters. The portable
//! code of RustCrypto's crate uses 26-bit limbs and reads bytes. It takes 198 instructions for each
//! 16 bytes on harts without misaligned access. So this is our own code, which the tests compare
//! with that crate.

use zeroize::{Zeroize, ZeroizeOnDrop};

/// A number modulo 2^130 - 5, in limbs of 44, 44 and 42 bits, lowest first.
type Limbs = [u64; 3];

const LOW_44: u64 = (1 << 44) - 1;
const LOW_42: u64 = (1 << 42) - 1;

#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct WordsMac {
    r: Limbs,
    /// 20 times the upper limbs of `r`, the factors for products above 2^132.
    r20: [u64; 2],
    pad: [u64; 2],
    sum: Limbs,
}

/// The limbs of a 128-bit number, given as two words.
fn limbs([low, high]: [u64; 2]) -> Limbs {
    [low & LOW_44, (low >> 44 | high << 20) & LOW_44, high >> 24]
}

impl WordsMac {
    /// Starts a message with its one-time key.
    pub(super) fn new([r0, r1, s0, s1]: [u64; 4]) -> Self {
        // Clamped (RFC 8439, 2.5).
        let r = limbs([r0 & 0x0fff_fffc_0fff_ffff, r1 & 0x0fff_fffc_0fff_fffc]);
        WordsMac {
            r,
            r20: [20 * r[1], 20 * r[2]],
            pad: [s0, s1],
            sum: [0; 3],
        }
    }

    /// Adds a whole block.
    #[inline(always)]
    pub(super) fn block(&mut self, words: [u64; 2]) {
        let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let [r0, r1, r2] = self.r;
        let [r1_20, r2_20] = self.r20;
        let [b0, b1, b2] = limbs(words);
        let [h0, h1, h2] = self.sum;
        let (h0, h1, h2) = (h0 + b0, h1 + b1, h2 + (b2 | 1 << 40));
        let d0 = wide(h0, r0) + wide(h1, r2_20) + wide(h2, r1_20);
        let d1 = wide(h0, r1) + wide(h1, r0) + wide(h2, r2_20);
        let d2 = wide(h0, r2) + wide(h1, r1) + wide(h2, r0);
        let (d1, h0) = (d1 + u128::from(high(d0, 44)), low(d0) & LOW_44);
        let (d2, h1) = (d2 + u128::from(high(d1, 44)), low(d1) & LOW_44);
        let h2 = low(d2) & LOW_42;
        let h0 = h0 + 5 * high(d2, 42);
        self.sum = [h0 & LOW_44, h1 + (h0 >> 44), h2];
    }

    pub(super) fn finish(self) -> [u64; 2] {
        let [h0, h1, h2] = self.sum;
        // After the carries, each limb has only its own bits.
        let carry = |[h0, h1, h2]: Limbs| {
            let h1 = h1 + (h0 >> 44);
            let h2 = h2 + (h1 >> 44);
            let h0 = (h0 & LOW_44) + 5 * (h2 >> 42);
            [h0, h1 & LOW_44, h2 & LOW_42]
        };
        let [h0, h1, h2] = carry(carry(carry([h0, h1, h2])));
        // Subtracts 2^130 - 5 if the number is not below it.
        let g0 = h0 + 5;
        let g1 = h1 + (g0 >> 44);
        let g2 = h2 + (g1 >> 44);
        let is_less = (g2 >> 42).wrapping_sub(1);
        let choose = |h: u64, g: u64| h & is_less | g & !is_less;
        let h0 = choose(h0, g0 & LOW_44);
        let h1 = choose(h1, g1 & LOW_44);
        let h2 = choose(h2, g2 & LOW_42);
        let number = u128::from(h0) | u128::from(h1) << 44 | u128::from(h2) << 88;
        let pad = u128::from(self.pad[0]) | u128::from(self.pad[1]) << 64;
        let tag = number.wrapping_add(pad);
        [low(tag), high(tag, 64)]
    }
}

#[allow(clippy::cast_possible_truncation, reason = "meant")]
fn low(number: u128) -> u64 {
    number as u64
}

/// The number without its lowest bits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "of 128 bits, no more are left"
)]
fn high(number: u128, bits: u32) -> u64 {
    (number >> bits) as u64
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use poly1305::universal_hash::{KeyInit, UniversalHash};
    use poly1305::{Block, Poly1305};
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    fn tag(key: [u64; 4], blocks: &[[u64; 2]]) -> [u64; 2] {
        let mut mac = WordsMac::new(key);
        blocks.iter().for_each(|block| mac.block(*block));
        mac.finish()
    }

    fn oracle(key: [u64; 4], blocks: &[[u64; 2]]) -> [u64; 2] {
        let key: [u8; 32] = key.as_bytes().try_into().unwrap();
        let mut mac = Poly1305::new(&key.into());
        mac.update(Block::slice_as_chunks(blocks.as_bytes()).0);
        let tag = mac.finalize();
        let half = |first: usize| u64::from_le_bytes(tag[first..first + 8].try_into().unwrap());
        [half(0), half(8)]
    }

    /// RFC 8439, A.3: those whose text is whole blocks.
    #[test]
    fn the_published_tags() {
        let ones = u64::MAX;
        for (key, blocks, expected) in [
            ([0; 4], &[[0; 2]; 4][..], [0, 0]),
            // 7 to 11: where a carry is easily lost.
            ([2, 0, 0, 0], &[[ones, ones]], [3, 0]),
            ([2, 0, ones, ones], &[[2, 0]], [3, 0]),
            (
                [1, 0, 0, 0],
                &[[ones, ones], [ones - 15, ones], [0x11, 0]],
                [5, 0],
            ),
            (
                [1, 0, 0, 0],
                &[
                    [ones, ones],
                    [0xfefe_fefe_fefe_fefb, 0xfefe_fefe_fefe_fefe],
                    [0x0101_0101_0101_0101; 2],
                ],
                [0, 0],
            ),
            ([2, 0, 0, 0], &[[ones - 2, ones]], [ones - 5, ones]),
        ] {
            assert_eq!(oracle(key, blocks), expected, "{blocks:x?}");
            assert_eq!(tag(key, blocks), expected, "{blocks:x?}");
        }
    }

    /// Words with long runs of equal bits, too: where carries are.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (0u32..64).prop_map(|bits| u64::MAX >> bits),
            (0u32..64).prop_map(|bits| u64::MAX << bits),
            Just(0),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn tags_match_the_oracle(
            key in prop::array::uniform4(word()),
            blocks in prop::collection::vec(prop::array::uniform2(word()), 0..40),
        ) {
            let blocks: Vec<_> = blocks;
            prop_assert_eq!(tag(key, &blocks), oracle(key, &blocks));
        }
    }
}
