//! The controller of persistent memory: registers that level wear, errors, and the port that
//! wipes memory.

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, fence};
use poorwill_devicetree::{ControllerBits, MAX_WEAR_RANGES, Machine, MemoryController};
use poorwill_drivers::Registers;
use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{MAX_WEAR_WORDS, WearWords};
use thiserror::Error;

/// Bytes of a wear register.
const WORD_BYTES: u64 = 8;

/// How often the controller is asked whether it has wiped memory.
const PATIENCE: u32 = 100_000;

/// Why no cut is to be taken on a machine with such a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WearError {
    /// What runs or is loaded before the registers are put back.
    #[error(
        "the wear of the memory from {0:#x} is levelled, in which machine mode is, or is loaded to"
    )]
    Levelled(u64),
    /// The tree does not say which memory they map.
    #[error("the device tree does not say which memory's wear is levelled")]
    Unknown,
    /// There is no room in the record.
    #[error("the wear registers have {0} bytes")]
    TooMany(u64),
}

/// The controller.
#[derive(Debug)]
pub(crate) struct Controller {
    wear: ArrayVec<(Mmio, u64), MAX_WEAR_RANGES>,
    error: Option<(Mmio, u32)>,
    reset: Option<(Mmio, u32)>,
}

impl Controller {
    /// The controller that the tree names; all of `fixed` is where it is whatever its
    /// registers hold.
    ///
    /// # Errors
    ///
    /// [`WearError`].
    ///
    /// # Safety
    ///
    /// `machine` describes this machine.
    pub(super) unsafe fn new(
        machine: &Machine,
        mut fixed: impl Iterator<Item = PhysRange>,
    ) -> Result<Self, WearError> {
        let MemoryController {
            wear_registers,
            wear_levelled,
            error,
            reset,
        } = &machine.memory_controller;
        let bytes: u64 = wear_registers.iter().map(PhysRange::length).sum();
        if bytes > MAX_WEAR_WORDS as u64 * WORD_BYTES || !bytes.is_multiple_of(WORD_BYTES) {
            return Err(WearError::TooMany(bytes));
        }
        if bytes > 0 && wear_levelled.is_empty() {
            return Err(WearError::Unknown);
        }
        let is_levelled = |range: &PhysRange| wear_levelled.iter().any(|all| all.overlaps(range));
        if let Some(range) = fixed.find(is_levelled) {
            return Err(WearError::Levelled(range.start));
        }
        // SAFETY: the tree, which is right, says the caller, names registers there.
        let mmio = |address| unsafe { Mmio::new(address) };
        let bits = |bits: ControllerBits| (mmio(bits.address), bits.bits);
        Ok(Controller {
            wear: (wear_registers.iter())
                .map(|range| (mmio(range.start), range.length() / WORD_BYTES))
                .collect(),
            error: error.map(bits),
            reset: reset.map(bits),
        })
    }

    fn wear_registers(&self) -> impl Iterator<Item = (&Mmio, u64)> {
        let ranges = self.wear.iter();
        ranges.flat_map(|(range, words)| (0..*words).map(move |word| (range, word * WORD_BYTES)))
    }

    /// How many words the wear registers have.
    pub(crate) fn wear_words(&self) -> usize {
        self.wear_registers().count()
    }

    /// What they hold.
    pub(crate) fn wear(&self) -> WearWords {
        fence::everything();
        let all = self.wear_registers();
        all.map(|(range, at)| Registers::<u64>::read(range, at))
            .collect()
    }

    /// Puts them back, behind all that was asked of memory before.
    pub(crate) fn put_back_wear(&self, words: &WearWords) {
        fence::everything();
        for ((range, at), word) in self.wear_registers().zip(words) {
            range.write(at, *word);
        }
        fence::everything();
    }

    /// Whether it tells of an error that cannot be corrected.
    pub(crate) fn has_error(&self) -> bool {
        fence::everything();
        let error = self.error.as_ref();
        error.is_some_and(|(register, bits)| Registers::<u32>::read(register, 0) & bits != 0)
    }

    /// Whether it can wipe memory.
    pub(crate) fn can_wipe(&self) -> bool {
        self.reset.is_some()
    }

    /// Has it wipe memory, and waits for a while until it tells of no error.
    pub(crate) fn wipe(&self) {
        if let Some((register, bits)) = &self.reset {
            register.write(0, *bits);
            fence::everything();
            let mut asked = 0..PATIENCE;
            while self.has_error() && asked.next().is_some() {
                core::hint::spin_loop();
            }
        }
    }
}
