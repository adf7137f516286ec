use thiserror::Error;

use super::Pmp;
use super::entry::MAX_ENTRIES;
use super::plan::{ENTRIES_IN_A_WORD, PmpPlan};

/// The PMP registers of a hart. No OS runs on it, and the firmware has locked no entry.
pub trait PmpRegisters {
    /// Writes an entry's `pmpaddr` and returns its new value; `None` if the hart lacks the entry.
    fn set_address(&self, entry: usize, value: u64) -> Option<u64>;

    /// As [`set_address`](Self::set_address), for configuration register `word` of eight entries.
    fn set_config(&self, word: usize, value: u64) -> Option<u64>;
}

/// A register does not hold the written value: it has fewer bits, or an earlier stage locked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "PMP entry {entry} does not hold its written value: the hart has too few address bits, or an earlier boot stage locked the entry"
)]
pub struct Lost {
    /// The first such entry.
    pub entry: usize,
}

impl Pmp {
    /// Probes the hart's PMP. Its entries are off after the call.
    #[must_use]
    pub fn probe(registers: &impl PmpRegisters) -> Pmp {
        for word in 0..MAX_ENTRIES / ENTRIES_IN_A_WORD {
            registers.set_config(word, 0);
        }
        // After a write of all ones, a register shows the bits that it has.
        let mut stuck = (0..MAX_ENTRIES).map(|entry| registers.set_address(entry, u64::MAX));
        let Some(first @ 1..) = stuck.next().flatten() else {
            return Pmp::NONE;
        };
        let more = stuck.take_while(|bits| matches!(bits, Some(1..))).count();
        Pmp::probed(1 + more, first)
    }
}

impl PmpPlan {
    /// Writes all of the plan, and reads it back.
    ///
    /// # Errors
    ///
    /// [`Lost`]: the OS must not run on the hart.
    pub fn write(&self, registers: &impl PmpRegisters) -> Result<(), Lost> {
        for (index, entry) in self.entries().iter().enumerate() {
            // A write of all ones shows the bits that exist.
            let there = registers.set_address(index, u64::MAX).unwrap_or(0);
            let held = registers.set_address(index, entry.address).unwrap_or(0);
            let wanted = match entry.covers_everything() {
                // On fewer bits, all ones cover all addresses, too.
                true => entry.address & there,
                false => entry.address,
            };
            // An entry that is off shows no bits below the granularity (privileged specification,
            // 3.7.1), and the plan's ranges are aligned to it.
            let below = (there & there.wrapping_neg()).wrapping_sub(1);
            if (held ^ wanted) & !below != 0 || there == 0 {
                return Err(Lost { entry: index });
            }
        }
        for (index, word) in self.config_words().iter().enumerate() {
            // A hart has only the configuration registers that its entries need.
            let held = registers.set_config(index, *word).unwrap_or(0);
            if held != *word {
                let wrong = (held ^ word).trailing_zeros() / u8::BITS;
                let entry = index * ENTRIES_IN_A_WORD + wrong as usize;
                return Err(Lost { entry });
            }
        }
        Ok(())
    }
}
