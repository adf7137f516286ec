//! The controller of persistent memory: wear-levelling registers, errors, and a register that wipes
//! memory.

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, fence};
use poorwill_devicetree::{ControllerBits, MAX_WEAR_RANGES, Machine, MemoryController};
use poorwill_drivers::Registers;
use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{MAX_WEAR_WORDS, WearWords};
use thiserror::Error;

const WORD_BYTES: u64 = 8;

const MAX_WEAR_BYTES: u64 = MAX_WEAR_WORDS as u64 * WORD_BYTES;

/// Maximum number of polls while the controller wipes memory.
const PATIENCE: u32 = 100_000;

/// Why machines with this controller cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WearError {
    /// Memory is wear-levelled that the firmware or a loader uses before the registers are
    /// restored.
    #[error(
        "memory from {0:#x} is wear-levelled, but machine mode or a loaded file lies there: move it"
    )]
    Levelled(u64),
    #[error("the power-fail node has wear-registers, but no wear-levelled memory")]
    Unknown,
    #[error("the wear registers have {0} bytes; the maximum is {MAX_WEAR_BYTES}, in words of 8")]
    TooMany(u64),
}

#[derive(Debug)]
pub(crate) struct Controller {
    wear: ArrayVec<(Mmio, u64), MAX_WEAR_RANGES>,
    error: Option<(Mmio, u32)>,
    reset: Option<(Mmio, u32)>,
}

impl Controller {
    /// The controller in the tree. Memory in `fixed` must not be wear-levelled.
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
        if bytes > MAX_WEAR_BYTES || !bytes.is_multiple_of(WORD_BYTES) {
            return Err(WearError::TooMany(bytes));
        }
        if bytes > 0 && wear_levelled.is_empty() {
            return Err(WearError::Unknown);
        }
        let is_levelled = |range: &PhysRange| wear_levelled.iter().any(|all| all.overlaps(range));
        if let Some(range) = fixed.find(is_levelled) {
            return Err(WearError::Levelled(range.start));
        }
        // SAFETY: by the caller's contract the tree is right; it names registers there.
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

    pub(crate) fn wear_words(&self) -> usize {
        self.wear_registers().count()
    }

    pub(crate) fn wear(&self) -> WearWords {
        fence::everything();
        let all = self.wear_registers();
        all.map(|(range, at)| Registers::<u64>::read(range, at))
            .collect()
    }

    /// Restores the wear registers, after all earlier memory accesses.
    pub(crate) fn put_back_wear(&self, words: &WearWords) {
        fence::everything();
        for ((range, at), word) in self.wear_registers().zip(words) {
            range.write(at, *word);
        }
        fence::everything();
    }

    /// Returns whether the controller reports an uncorrectable error.
    pub(crate) fn has_error(&self) -> bool {
        fence::everything();
        let error = self.error.as_ref();
        error.is_some_and(|(register, bits)| Registers::<u32>::read(register, 0) & bits != 0)
    }

    pub(crate) fn can_wipe(&self) -> bool {
        self.reset.is_some()
    }

    /// Wipes memory. Waits until the controller reports no error, up to a limit.
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
