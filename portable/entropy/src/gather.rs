//! Chooses the sources to gather for each [`Purpose`].

use crate::seed::SeedError;
use crate::{Pool, Purpose, Quality, Source};

/// Bytes of one read of the hardware's source: twice a key's length, because each bit has only half
/// a bit of entropy.
pub const HARDWARE_BYTES: usize = 64;

/// The number of timing rounds. Each is assumed to add one bit of entropy at best.
const JITTER_ROUNDS: usize = 16;
const JITTER_SAMPLES: usize = 64;

/// A machine's own sources of randomness.
pub trait Sources {
    /// Fills `into` from the hardware's entropy source; says whether there is one
    /// Fills `into` from the hardware's entropy source. Returns `false` if there is no
    /// source.
    /// # Errors
    ///
    /// [`SeedError`]: the source exists but gives no usable bytes.
    fn hardware(&self, into: &mut [u8; HARDWARE_BYTES]) -> Result<bool, SeedError>;

    /// The current value of a counter of CPU cycles.
    fn cycles(&self) -> u64;

    /// Ticks of the machine's clock. The time of this read is part of the jitter samples.
    fn ticks(&self) -> u64;

    /// Values that differ between machines or between power-ons.
    fn circumstances(&self) -> impl AsRef<[u64]>;
}

impl Pool {
    /// Gathers the sources that suit `purpose`, for the next [draw](Pool::draw).
    ///
    /// A key and a salt use all sources. A seed for the OS uses only the trusted ones. A
    /// generation ID is made at every wake, so it uses timing, the slowest source, only
    /// if the pool is still weak.
    ///
    /// # Errors
    ///
    /// [`SeedError`] of the hardware's source. All other sources have been gathered;
    /// [`Pool::quality`] gives the result.
    pub fn gather(&mut self, purpose: Purpose, sources: &impl Sources) -> Result<(), SeedError> {
        let hardware = self.gather_hardware(sources);
        let wants_jitter = match purpose {
            Purpose::Key | Purpose::Salt => true,
            Purpose::GenerationId => self.quality() == Quality::Weak,
            Purpose::OsSeed => false,
        };
        if wants_jitter {
            self.gather_jitter(sources);
        }
        if purpose != Purpose::OsSeed {
            let circumstances = sources.circumstances();
            self.add_words(Source::Circumstance, circumstances.as_ref());
        }
        hardware
    }

    fn gather_hardware(&mut self, sources: &impl Sources) -> Result<(), SeedError> {
        let mut bytes = [0; HARDWARE_BYTES];
        if sources.hardware(&mut bytes)? {
            self.add(Source::Hardware, &bytes);
        }
        Ok(())
    }

    /// Measures the times of reads from a device and from memory. They vary with the states of
    /// caches and queues.
    fn gather_jitter(&mut self, sources: &impl Sources) {
        for _ in 0..JITTER_ROUNDS {
            let mut samples = [0u64; JITTER_SAMPLES];
            let mut last = sources.cycles();
            for index in 0..JITTER_SAMPLES {
                let ticks = sources.ticks();
                // The address of the load depends on the earlier times, so the load adds variation.
                let place = usize::from(last.to_le_bytes()[0]) % JITTER_SAMPLES;
                let touched = core::hint::black_box(samples[place]);
                let now = sources.cycles();
                samples[index] = now.wrapping_sub(last) ^ ticks.rotate_left(32) ^ touched;
                last = now;
            }
            self.add_words(Source::Jitter, &samples);
        }
    }

    fn add_words(&mut self, source: Source, words: &[u64]) {
        let mut bytes = [0; 8 * JITTER_SAMPLES];
        for part in words.chunks(JITTER_SAMPLES) {
            for (bytes, word) in bytes.chunks_mut(8).zip(part) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            self.add(source, &bytes[..8 * part.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A machine that counts calls.
    struct Model {
        hardware: Result<Option<u8>, SeedError>,
        now: Cell<u64>,
        /// Cycles that each look takes.
        pace: u64,
        tick: u64,
        place: u64,
        circumstances_asked: Cell<usize>,
    }

    /// One without a source of the hardware's.
    fn plain() -> Model {
        Model {
            hardware: Ok(None),
            now: Cell::new(0),
            pace: 3,
            tick: 9,
            place: 1,
            circumstances_asked: Cell::new(0),
        }
    }

    impl Sources for Model {
        fn hardware(&self, into: &mut [u8; HARDWARE_BYTES]) -> Result<bool, SeedError> {
            let byte = self.hardware?;
            into.fill(byte.unwrap_or(0xee));
            Ok(byte.is_some())
        }

        fn cycles(&self) -> u64 {
            self.now.set(self.now.get() + self.pace);
            self.now.get()
        }

        fn ticks(&self) -> u64 {
            self.tick
        }

        fn circumstances(&self) -> impl AsRef<[u64]> {
            self.circumstances_asked
                .set(self.circumstances_asked.get() + 1);
            [self.place, 5]
        }
    }

    const PURPOSES: [Purpose; 4] = [
        Purpose::Key,
        Purpose::Salt,
        Purpose::OsSeed,
        Purpose::GenerationId,
    ];

    /// Whether timing and whether circumstances were gathered.
    fn gathered(model: &Model, pool: &mut Pool, purpose: Purpose) -> (bool, bool) {
        model.now.set(0);
        model.circumstances_asked.set(0);
        pool.gather(purpose, model).unwrap();
        (model.now.get() != 0, model.circumstances_asked.get() != 0)
    }

    #[test]
    fn what_is_gathered_depends_on_what_it_is_for() {
        let of = |model: &Model, purpose| gathered(model, &mut Pool::new(), purpose);
        assert_eq!(
            PURPOSES.map(|purpose| of(&plain(), purpose)),
            [(true, true), (true, true), (false, false), (true, true),]
        );
        let strong = Model {
            hardware: Ok(Some(7)),
            ..plain()
        };
        assert_eq!(
            PURPOSES.map(|purpose| of(&strong, purpose)),
            [
                (true, true),
                (true, true),
                (false, false),
                // Better has gone in.
                (false, true),
            ]
        );
        let mut seeded = Pool::new();
        seeded.add(Source::PreviousStage, &[1; 32]);
        let purpose = Purpose::GenerationId;
        assert_eq!(gathered(&plain(), &mut seeded, purpose), (false, true));
    }

    #[test]
    fn the_hardwares_bytes_count_for_every_purpose() {
        for purpose in PURPOSES {
            let draw = |hardware| {
                let mut pool = Pool::new();
                let model = Model {
                    hardware,
                    ..plain()
                };
                pool.gather(purpose, &model).unwrap();
                (pool.quality(), pool.draw::<32>(purpose))
            };
            let (weak, none) = draw(Ok(None));
            let (strong, seven) = draw(Ok(Some(7)));
            let (_, eight) = draw(Ok(Some(8)));
            assert_eq!((weak, strong), (Quality::Weak, Quality::Strong));
            assert!(none != seven && seven != eight, "{purpose:?}");
        }
    }

    #[test]
    fn a_source_that_fails_is_told_and_the_others_are_gathered() {
        let broken = Model {
            hardware: Err(SeedError::Dead),
            ..plain()
        };
        let mut pool = Pool::new();
        assert_eq!(pool.gather(Purpose::Key, &broken), Err(SeedError::Dead));
        assert_eq!(pool.quality(), Quality::Weak);
        let mut without = Pool::new();
        without.gather(Purpose::Key, &plain()).unwrap();
        assert_eq!(pool.draw::<32>(Purpose::Key), without.draw(Purpose::Key));
    }

    #[test]
    fn timing_and_circumstances_change_what_is_drawn() {
        let draw = |pace, tick, place| {
            let mut pool = Pool::new();
            let model = Model {
                pace,
                tick,
                place,
                ..plain()
            };
            pool.gather(Purpose::Salt, &model).unwrap();
            pool.draw::<8>(Purpose::Salt)
        };
        // At both paces it is the first place that is touched each time, so that only
        // the time between two moments differs.
        let (slow, fast) = (128, 64);
        let drawn = draw(fast, 9, 1);
        assert_ne!(drawn, draw(slow, 9, 1));
        assert_ne!(drawn, draw(fast, 8, 1));
        assert_ne!(drawn, draw(fast, 9, 2));
        assert_eq!(drawn, draw(fast, 9, 1));
    }

    #[test]
    fn words_go_in_as_their_bytes_however_many() {
        let words: [u64; JITTER_SAMPLES] = core::array::from_fn(|index| index as u64 * 0x0101);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (mut one, mut other) = (Pool::new(), Pool::new());
        one.add_words(Source::Jitter, &words);
        other.add(Source::Jitter, &bytes);
        assert_eq!(one.draw::<32>(Purpose::Key), other.draw(Purpose::Key));
        one.add_words(Source::Circumstance, &words[..7]);
        other.add(Source::Circumstance, &bytes[..56]);
        assert_eq!(one.draw::<32>(Purpose::Key), other.draw(Purpose::Key));
    }
}
