use thiserror::Error;

use super::Pmp;
use super::entry::MAX_ENTRIES;
use super::plan::{ENTRIES_IN_A_WORD, PmpPlan};

/// The registers of a hart's PMP, on which no OS runs, and of whose entries none is locked
/// by us.
pub trait PmpRegisters {
    /// Writes `pmpaddr` of an entry, and gives what it then reads; `None` where the hart has
    /// no such entry.
    fn set_address(&self, entry: usize, value: u64) -> Option<u64>;

    /// The same of the `word`th configuration register, of eight entries.
    fn set_config(&self, word: usize, value: u64) -> Option<u64>;
}

/// A register does not hold what was written to it, as one does that an earlier stage has
/// locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("entry {entry} of physical memory protection does not hold what was written")]
pub struct Lost {
    /// The first such entry.
    pub entry: usize,
}

impl Pmp {
    /// What the hart has. Its entries are off afterwards.
    #[must_use]
    pub fn probe(registers: &impl PmpRegisters) -> Pmp {
        for word in 0..MAX_ENTRIES / ENTRIES_IN_A_WORD {
            registers.set_config(word, 0);
        }
        // All ones, of which those stick that the register has.
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
            // What an address register holds depends on the configuration, and bits of
            // it may not be there: those that are there are told by all ones.
            let there = registers.set_address(index, u64::MAX).unwrap_or(0);
            let held = registers.set_address(index, entry.address).unwrap_or(0);
            if (held ^ entry.address) & there != 0 || there == 0 {
                return Err(Lost { entry: index });
            }
        }
        for (index, word) in self.config_words().iter().enumerate() {
            // A hart has as many of these registers as its entries need.
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
