//! Memory that processes share.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Floating-point numbers in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Floats<'m>(&'m [AtomicU64]);

impl<'m> Floats<'m> {
    /// Number `at`.
    #[must_use]
    #[inline]
    pub fn get(self, at: usize) -> f64 {
        f64::from_bits(self.0[at].load(Ordering::Relaxed))
    }

    /// Sets number `at`.
    #[inline]
    pub fn set(self, at: usize, value: f64) {
        self.0[at].store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds to number `at`, which no other process changes meanwhile.
    #[inline]
    pub fn add(self, at: usize, value: f64) {
        self.set(at, self.get(at) + value);
    }

    /// A part of the numbers.
    #[must_use]
    pub fn part(self, range: Range<usize>) -> Floats<'m> {
        Floats(&self.0[range])
    }

    /// All numbers.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = f64> + use<'m> {
        let words = self.0.iter();
        words.map(|word| f64::from_bits(word.load(Ordering::Relaxed)))
    }

    /// Sets all numbers to those of `values`.
    #[inline]
    pub fn fill(self, values: impl Iterator<Item = f64>) {
        for (word, value) in self.0.iter().zip(values) {
            word.store(value.to_bits(), Ordering::Relaxed);
        }
    }
}

/// Integers in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'m>(&'m [AtomicU64]);

impl Numbers<'_> {
    /// Number `at`.
    #[must_use]
    #[inline]
    pub fn get(self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// Sets number `at`.
    #[inline]
    pub fn set(self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Relaxed);
    }
}

/// Indices of 32 bits in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Indices<'m>(&'m [AtomicU32]);

impl Indices<'_> {
    /// Index number `at`.
    #[must_use]
    #[inline]
    pub fn get(self, at: usize) -> usize {
        self.0[at].load(Ordering::Relaxed) as usize
    }

    /// Sets index number `at`.
    #[inline]
    pub fn set(self, at: usize, value: usize) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.0[at].store(value, Ordering::Relaxed);
    }

    /// Indices of a range.
    #[inline]
    pub fn iter(self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let words = self.0[range].iter();
        words.map(|word| word.load(Ordering::Relaxed) as usize)
    }
}

/// Memory that is given to a program's arrays, from its start on. Each process takes the same
/// arrays.
#[derive(Debug)]
pub struct Arena<'m> {
    wide: &'m [AtomicU64],
    narrow: &'m [AtomicU32],
}

impl<'m> Arena<'m> {
    /// All of this memory.
    #[must_use]
    pub fn new(wide: &'m [AtomicU64], narrow: &'m [AtomicU32]) -> Self {
        Arena { wide, narrow }
    }

    fn wide(&mut self, count: usize) -> &'m [AtomicU64] {
        let (taken, rest) = self.wide.split_at(count);
        self.wide = rest;
        taken
    }

    /// The next floating-point numbers.
    pub fn floats(&mut self, count: usize) -> Floats<'m> {
        Floats(self.wide(count))
    }

    /// The next integers.
    pub fn numbers(&mut self, count: usize) -> Numbers<'m> {
        Numbers(self.wide(count))
    }

    /// The next indices.
    pub fn indices(&mut self, count: usize) -> Indices<'m> {
        let (taken, rest) = self.narrow.split_at(count);
        self.narrow = rest;
        Indices(taken)
    }
}
