//! The static randomiser: a fixed permutation of the lines of memory.

/// Rounds of the Feistel network, each of both halves.
const ROUNDS: u32 = 2;

/// A permutation of the lines of memory. Neighbours land far apart, so that wear spreads.
#[derive(Clone, Copy, Debug)]
pub struct Randomiser {
    lines: u64,
    /// Bits of the lower half.
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    seed: u64,
}

impl Randomiser {
    /// A permutation of `lines` lines that `seed` chooses.
    #[must_use]
    pub fn new(lines: u64, seed: u64) -> Self {
        let bits = 64 - lines.saturating_sub(1).leading_zeros();
        let low_bits = bits / 2;
        Randomiser {
            lines,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            seed,
        }
    }

    /// The place of a line.
    #[must_use]
    pub fn place(&self, line: u64) -> u64 {
        let mut at = self.permute(line);
        // The network permutes a power of two. A place beyond memory is permuted on.
        while at >= self.lines {
            at = self.permute(at);
        }
        at
    }

    fn permute(&self, value: u64) -> u64 {
        let (mut low, mut high) = (value & self.low_mask, value >> self.low_bits);
        for round in 0..ROUNDS {
            let key = self.seed.wrapping_add(u64::from(round) << 1);
            low ^= mix(high, key) & self.low_mask;
            high ^= mix(low, key | 1) & self.high_mask;
        }
        high << self.low_bits | low
    }
}

/// Mixes all bits of a half into the upper bits, and takes these.
fn mix(half: u64, key: u64) -> u64 {
    let mixed =
        (half ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 29).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 32
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn each_place_has_one_line() {
        for lines in [1, 2, 3, 7, 64, 1000, 4096, 32 * 1024] {
            let randomiser = Randomiser::new(lines, 7);
            let mut taken = vec![false; usize::try_from(lines).expect("small")];
            for line in 0..lines {
                let place = usize::try_from(randomiser.place(line)).expect("small");
                assert!(
                    !core::mem::replace(&mut taken[place], true),
                    "{lines}: {line}"
                );
            }
        }
    }

    /// Lines of one page spread evenly over groups, and so do strides.
    #[test]
    fn strides_spread_over_groups() {
        let randomiser = Randomiser::new(1 << 25, 7);
        for stride in [1, 24, 64, 4096] {
            let mut groups = [0_u32; 24];
            for step in 0..24_000 {
                groups[usize::try_from(randomiser.place(step * stride % (1 << 25)) % 24)
                    .expect("small")] += 1;
            }
            // Of a binomial distribution with mean 1000, this is 6 standard deviations.
            assert!(
                groups.iter().all(|count| (800..1200).contains(count)),
                "{stride}: {groups:?}"
            );
        }
    }
}
