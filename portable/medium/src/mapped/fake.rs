//! A model of persistent memory, for tests.
//!
//! Stored data becomes durable when it is written back and then settled. A power cut also
//! preserves random other lines, because caches may write back lines at any time.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::vec;
use std::vec::Vec;

use poorwill_memory::{PAGE_BYTES, PAGE_WORDS, PhysRange, to_usize};

use super::{MappedMedium, MappedMemory, Persistence};

/// The length of a cache line in bytes.
const LINE: usize = 64;

/// The status of a device that reports a failure of persistence.
pub const INJECTED_STATUS: u16 = 2;

#[derive(Debug)]
#[repr(C, align(4096))]
struct Words([AtomicU64; PAGE_WORDS]);

/// Modelled persistent memory; see the [module](self).
#[derive(Debug)]
pub struct FakePmem {
    /// The contents for loads.
    now: Vec<Words>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The contents that certainly survive a power cut.
    durable: Vec<u8>,
    /// Data that is written back but not settled: offset and bytes.
    pending: Vec<(usize, Vec<u8>)>,
    is_present: bool,
    settles: bool,
    random: u64,
}

impl FakePmem {
    /// Memory of `pages` pages of zeros.
    #[must_use]
    pub fn new(pages: usize) -> Self {
        let zeros = || Words([const { AtomicU64::new(0) }; PAGE_WORDS]);
        FakePmem {
            now: (0..pages).map(|_| zeros()).collect(),
            state: Mutex::new(State {
                durable: vec![0; pages * size_of::<Words>()],
                pending: Vec::new(),
                is_present: true,
                settles: true,
                random: 0x9e37_79b9_7f4a_7c15,
            }),
        }
    }

    /// The memory's address range.
    #[must_use]
    pub fn range(&self) -> PhysRange {
        let start = self.now.as_ptr().expose_provenance() as u64;
        PhysRange::new(start, self.now.len() as u64 * PAGE_BYTES)
    }

    /// The memory as a medium. Several may be used at once for different blocks.
    ///
    /// # Panics
    ///
    /// If the device was pulled out.
    #[must_use]
    pub fn medium(&self) -> MappedMedium<&Self> {
        // SAFETY: the medium's borrow keeps the words alive, and they are atomics,
        // which may be written while this is shared.
        let memory = unsafe { MappedMemory::new(self.range()) };
        MappedMedium::new(memory.expect("whole pages"), self).expect("it is there")
    }

    /// The current contents for loads.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let words = self.now.iter().flat_map(|page| &page.0);
        words
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .collect()
    }

    /// The contents that are durable now.
    #[must_use]
    pub fn durable(&self) -> Vec<u8> {
        self.state().durable.clone()
    }

    /// Simulates a power cut and the power-on after it. Each unsettled line survives at
    /// random.
    pub fn cut_power(&self) {
        let now = self.bytes();
        let mut state = self.state();
        for (offset, bytes) in core::mem::take(&mut state.pending) {
            for (line, bytes) in bytes.chunks(LINE).enumerate() {
                if state.chance() {
                    let start = offset + line * LINE;
                    state.durable[start..start + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        for start in (0..now.len()).step_by(LINE) {
            let line = start..start + LINE;
            if now[line.clone()] != state.durable[line.clone()] && state.chance() {
                state.durable[line.clone()].copy_from_slice(&now[line]);
            }
        }
        self.fill(&state.durable);
    }

    /// Restores the device to its state after a power-on.
    pub fn restart(&self) {
        let mut state = self.state();
        state.pending.clear();
        (state.is_present, state.settles) = (true, true);
        self.fill(&state.durable);
    }

    /// Selects other survivors of power cuts.
    pub fn seed(&self, seed: u64) {
        self.state().random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    }

    /// Changes the durable contents.
    pub fn edit(&self, change: impl FnOnce(&mut [u8])) {
        let mut state = self.state();
        change(&mut state.durable);
        self.fill(&state.durable);
    }

    /// Removes the device: loads return all ones, and unsettled data is lost.
    pub fn pull_out(&self) {
        let mut state = self.state();
        state.is_present = false;
        state.pending.clear();
        self.fill(&vec![0xff; state.durable.len()]);
    }

    /// Makes the device report a failure of persistence from now on.
    pub fn refuse_to_settle(&self) {
        self.state().settles = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test goes on after a panic")
    }

    fn fill(&self, bytes: &[u8]) {
        let words = self.now.iter().flat_map(|page| &page.0);
        for (word, bytes) in words.zip(bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }
}

impl State {
    fn chance(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16).is_multiple_of(2)
    }
}

impl Persistence for FakePmem {
    fn write_back(&self, bytes: PhysRange) {
        let offset = bytes.start.checked_sub(self.range().start);
        let start = to_usize(offset.expect("bytes of this memory"));
        let end = start + to_usize(bytes.length());
        // Write back whole lines.
        let (start, end) = (start / LINE * LINE, end.next_multiple_of(LINE));
        let words = self.now.iter().flat_map(|page| &page.0);
        let bytes = words
            .skip(start / size_of::<u64>())
            .take((end - start) / size_of::<u64>())
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let bytes = bytes.collect();
        self.state().pending.push((start, bytes));
    }

    fn settle(&self) -> Result<(), u16> {
        let mut state = self.state();
        if !state.settles {
            return Err(INJECTED_STATUS);
        }
        for (offset, bytes) in core::mem::take(&mut state.pending) {
            state.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn is_present(&self) -> bool {
        self.state().is_present
    }
}
