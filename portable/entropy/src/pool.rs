use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac256, Digest};

/// A kind of entropy source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// An entropy source of the hardware (RISC-V's seed CSR).
    Hardware = 1,
    /// A seed that the previous boot stage gave.
    PreviousStage = 2,
    /// Timing of reads.
    Jitter = 3,
    /// Public values that differ between machines or power-ons: clocks, IDs.
    Circumstance = 4,
}

/// The quality of the bytes that a pool gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quality {
    /// Jitter and public values only: no entropy is guaranteed.
    Weak,
    /// As good as the previous stage's seed.
    Seeded,
    /// From an entropy source of the hardware.
    Strong,
}

/// The use of drawn bytes. Bytes for one purpose reveal nothing about those for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// A key that seals images.
    Key = 1,
    /// A value that must not repeat, but need not be secret.
    Salt = 2,
    /// A seed for the OS.
    OsSeed = 3,
    /// A generation ID, from which the OS knows that it has slept.
    GenerationId = 4,
}

/// The fewest bytes of a source that count as a whole seed: a key's length.
const SEED_BYTES: usize = 32;

/// Gathered randomness, of which 256 bits are kept.
///
/// Adding bytes never lowers its entropy. Drawing is one-way: the state after a draw
/// reveals nothing about earlier draws (forward secrecy).
#[derive(Clone)]
pub struct Pool {
    state: [u8; 32],
    quality: Quality,
}

impl core::fmt::Debug for Pool {
    /// Omits the state, which is secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool")
            .field("quality", &self.quality)
            .finish_non_exhaustive()
    }
}

impl Default for Pool {
    fn default() -> Self {
        Pool::new()
    }
}

impl Pool {
    /// An empty pool.
    #[must_use]
    pub const fn new() -> Self {
        Pool {
            state: [0; 32],
            quality: Quality::Weak,
        }
    }

    /// Mixes bytes in. At least 32 bytes of a trusted source raise the quality.
    pub fn add(&mut self, source: Source, bytes: &[u8]) {
        let mut hash = Blake2s256::new();
        Digest::update(&mut hash, b"poorwill entropy add");
        Digest::update(&mut hash, self.state);
        Digest::update(&mut hash, [source as u8]);
        Digest::update(&mut hash, bytes);
        self.state = hash.finalize().into();
        let vouched = match source {
            Source::Hardware => Quality::Strong,
            Source::PreviousStage => Quality::Seeded,
            Source::Jitter | Source::Circumstance => Quality::Weak,
        };
        if bytes.len() >= SEED_BYTES {
            self.quality = self.quality.max(vouched);
        }
    }

    /// The quality of the bytes that can be drawn now.
    #[must_use]
    pub fn quality(&self) -> Quality {
        self.quality
    }

    /// Takes `N` bytes for `purpose`. Each draw changes the state, so draws differ.
    ///
    /// `N` is at most 32, the length of the pool's state.
    #[must_use]
    pub fn draw<const N: usize>(&mut self, purpose: Purpose) -> [u8; N] {
        const { assert!(N <= 32) };
        let drawn = self.derive(b"poorwill entropy draw", purpose as u8);
        self.state = self.derive(b"poorwill entropy next", 0);
        core::array::from_fn(|index| drawn[index])
    }

    fn derive(&self, label: &[u8], number: u8) -> [u8; 32] {
        let mut mac = Blake2sMac256::new(&self.state.into());
        Mac::update(&mut mac, label);
        Mac::update(&mut mac, &[number]);
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(parts: &[(Source, &[u8])]) -> Pool {
        let mut pool = Pool::new();
        for (source, bytes) in parts {
            pool.add(*source, bytes);
        }
        pool
    }

    fn key(parts: &[(Source, &[u8])]) -> [u8; 32] {
        pool(parts).draw(Purpose::Key)
    }

    #[test]
    fn known_answers() {
        // Computed independently, with Python's hashlib.blake2s.
        let mut pool = pool(&[
            (Source::PreviousStage, &[0x11; 32]),
            (Source::Jitter, b"abc"),
        ]);
        assert_eq!(hex(&pool.draw::<32>(Purpose::Key)), KEY);
        assert_eq!(hex(&pool.draw::<16>(Purpose::Salt)), SALT);
    }

    const KEY: &str = "59ce9196b7f3c550a8ba27a470614e32e71cb6a7db44df20d9333ea0a360c42d";
    const SALT: &str = "cdfd251c9de29ce0911ca8e3f0cc37b9";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn every_part_counts() {
        let (a, b) = (&[1; 32][..], &[2; 32][..]);
        let variants = [
            key(&[]),
            key(&[(Source::Hardware, a)]),
            key(&[(Source::PreviousStage, a)]),
            key(&[(Source::Hardware, b)]),
            key(&[(Source::Hardware, a), (Source::Hardware, b)]),
            key(&[(Source::Hardware, b), (Source::Hardware, a)]),
            // Where one part ends matters.
            key(&[(Source::Jitter, b"ab"), (Source::Jitter, b"c")]),
            key(&[(Source::Jitter, b"a"), (Source::Jitter, b"bc")]),
            key(&[(Source::Jitter, b"abc")]),
        ];
        for (index, one) in variants.iter().enumerate() {
            assert!(variants[..index].iter().all(|other| other != one));
        }
    }

    #[test]
    fn draws_differ_by_purpose_and_from_one_to_the_next() {
        let seed: &[(Source, &[u8])] = &[(Source::Hardware, &[7; 32])];
        let one = pool(seed).draw::<32>(Purpose::Key);
        assert_ne!(one, pool(seed).draw(Purpose::Salt));
        assert_ne!(one, pool(seed).draw(Purpose::OsSeed));
        assert_ne!(one, pool(seed).draw(Purpose::GenerationId));
        let mut pool = pool(seed);
        assert_eq!(one, pool.draw(Purpose::Key));
        assert_ne!(one, pool.draw(Purpose::Key));
    }

    #[test]
    fn quality_is_that_of_the_best_whole_seed() {
        let quality = |parts: &[(Source, &[u8])]| pool(parts).quality();
        let (long, short) = (&[1; 32][..], &[1; 31][..]);
        assert_eq!(quality(&[(Source::Jitter, &[1; 900])]), Quality::Weak);
        assert_eq!(quality(&[(Source::Circumstance, long)]), Quality::Weak);
        assert_eq!(quality(&[(Source::PreviousStage, short)]), Quality::Weak);
        assert_eq!(quality(&[(Source::Hardware, short)]), Quality::Weak);
        let seeded = [(Source::PreviousStage, long), (Source::Jitter, short)];
        assert_eq!(quality(&seeded), Quality::Seeded);
        let strong = [(Source::Hardware, long), (Source::PreviousStage, long)];
        assert_eq!(quality(&strong), Quality::Strong);
    }

    #[test]
    fn nothing_secret_is_printed() {
        let printed = format!("{:?}", pool(&[(Source::Hardware, &[7; 32])]));
        assert_eq!(printed, "Pool { quality: Strong, .. }");
    }
}
