//! Fuzz targets for all that Poorwill reads from disks, device trees and buses, and for the
//! instructions that it interprets.
//!
//! A target is one file in `src/bin/`: a function that takes bytes and panics
//! when a promise is broken, and [`target!`]. `tools/fuzz` runs it under
//! libFuzzer; `cargo test` replays its corpus, `corpus/NAME/`; and
//! `cargo run -p poorwill-fuzz --bin NAME FILE...` replays single files.
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits, or cut on purpose"
)]

pub mod area;
pub mod disk;
pub mod dma;
pub mod image;
pub mod linux;
pub mod nvme;
pub mod pci;
pub mod replay;
pub mod virtual_hart;

/// What a target makes its cases of. Behind its end everything is 0.
pub type Input<'a> = arbitrary::Unstructured<'a>;

/// Reading cases from an [`Input`], which never ends.
pub trait Cases<'a> {
    /// Any value of a type.
    fn any<T: arbitrary::Arbitrary<'a> + Default>(&mut self) -> T;

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: u64) -> u64;

    /// Whether one of `many` equal chances came; not behind the end.
    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == many - 1
    }

    /// A number that lies near a limit of some sort, or anywhere.
    fn edgy(&mut self) -> u64 {
        match self.below(8) {
            0 => self.below(16),
            1 => self.below(1 << 16),
            2 => u64::from(self.any::<u32>()),
            3 => 1 << self.below(64),
            4 => (1 << self.below(64)) - 1,
            5 => u64::MAX - self.below(16),
            6 => u64::MAX - self.below(1 << 16),
            _ => self.any(),
        }
    }
}

impl<'a> Cases<'a> for Input<'a> {
    fn any<T: arbitrary::Arbitrary<'a> + Default>(&mut self) -> T {
        self.arbitrary().unwrap_or_default()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.int_in_range(0..=limit - 1).unwrap_or(0)
    }
}

/// Makes a binary of `run`, a function that takes `&[u8]`: a fuzz target under
/// libFuzzer, a test that replays its corpus, or a program that replays files.
/// Longer inputs than `max_len` are not made (`tools/fuzz` reads it here).
#[macro_export]
macro_rules! target {
    (max_len = $max_len:literal, $run:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|input: &[u8]| $run(input));

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::replay::files($run)
        }

        #[cfg(test)]
        #[test]
        fn the_corpus_passes() {
            $crate::replay::corpus(env!("CARGO_BIN_NAME"), $max_len, $run);
        }
    };
}
