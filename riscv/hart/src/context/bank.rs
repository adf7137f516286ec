//! What a hart holds for the OS beyond select registers, beside the S-level interrupt file.
//! It may be long, so it goes word by word, and no context has it.

use thiserror::Error;

/// Registers that are reached by a select register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bank {
    /// The S-level priorities of local interrupts (AIA, 5.2): eight words.
    Priorities,
    /// Control transfer records (Smctr, 5): source, target and data of each, the youngest
    /// first.
    Records,
    /// The guest interrupt files (AIA, 3.7), each as an S-level file has it.
    GuestFiles,
}

/// Words of the priorities.
pub const PRIORITY_WORDS: usize = 8;

/// Words of a record.
pub const RECORD_WORDS: usize = 3;

/// The most records that a hart has.
pub const MAX_RECORDS: usize = 256;

/// A bank is another hart's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{bank:?}: {words} words do not fit this hart, which has {here}")]
pub struct BankMisfit {
    /// Which.
    pub bank: Bank,
    /// Words that were saved.
    pub words: usize,
    /// The most words that this hart has.
    pub here: usize,
}

/// The banks of the hart that runs the call.
pub trait BankAccess {
    /// The most words that the bank has; 0 where the hart lacks it.
    fn bank_words(&self, bank: Bank) -> usize;

    /// Reads the bank, and hands on word by word until `each` fails.
    ///
    /// # Errors
    ///
    /// What `each` returns.
    fn read_bank<E>(&self, bank: Bank, each: impl FnMut(u64) -> Result<(), E>) -> Result<(), E>;

    /// Writes the bank; called with words that [fit](Bank::check), after the CSRs: they say
    /// how many records there are, and which is the youngest.
    fn write_bank(&self, bank: Bank, words: &[u64]);
}

impl Bank {
    /// All of them.
    pub const ALL: [Bank; 3] = [Bank::Priorities, Bank::Records, Bank::GuestFiles];

    /// Version of all their sections.
    pub const VERSION: u16 = 1;

    /// The tag of its section.
    #[must_use]
    pub const fn tag(self) -> u32 {
        u32::from_le_bytes(match self {
            Bank::Priorities => *b"PRIO",
            Bank::Records => *b"CTRR",
            Bank::GuestFiles => *b"GEIF",
        })
    }

    /// The bank whose section has that tag.
    #[must_use]
    pub fn of_tag(tag: u32) -> Option<Bank> {
        Self::ALL.into_iter().find(|bank| bank.tag() == tag)
    }

    /// Whether words that were saved can be put back on a hart like the calling one. Of
    /// records there may be fewer than the most: the OS chooses their number.
    ///
    /// # Errors
    ///
    /// [`BankMisfit`].
    pub fn check(self, words: usize, hart: &impl BankAccess) -> Result<(), BankMisfit> {
        let here = hart.bank_words(self);
        let fits = match self {
            Bank::Priorities | Bank::GuestFiles => words == here,
            Bank::Records => words <= here && words.is_multiple_of(RECORD_WORDS),
        };
        let misfit = BankMisfit {
            bank: self,
            words,
            here,
        };
        fits.then_some(()).ok_or(misfit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hart with so many words of each.
    struct Words([usize; 3]);

    impl BankAccess for Words {
        fn bank_words(&self, bank: Bank) -> usize {
            self.0[bank as usize]
        }

        fn read_bank<E>(
            &self,
            bank: Bank,
            mut each: impl FnMut(u64) -> Result<(), E>,
        ) -> Result<(), E> {
            (0..self.bank_words(bank) as u64).try_for_each(&mut each)
        }

        fn write_bank(&self, _bank: Bank, _words: &[u64]) {}
    }

    #[test]
    fn a_bank_goes_to_a_hart_that_has_as_much() {
        let hart = Words([8, 48, 20]);
        for (bank, words, fits) in [
            (Bank::Priorities, 8, true),
            (Bank::Priorities, 7, false),
            (Bank::Records, 48, true),
            (Bank::Records, 24, true),
            (Bank::Records, 25, false),
            (Bank::Records, 51, false),
            (Bank::GuestFiles, 20, true),
            (Bank::GuestFiles, 10, false),
        ] {
            let here = hart.bank_words(bank);
            let misfit = BankMisfit { bank, words, here };
            let wanted = if fits { Ok(()) } else { Err(misfit) };
            assert_eq!(bank.check(words, &hart), wanted);
        }
        assert!(Bank::Records.check(3, &Words([0; 3])).is_err());
    }

    #[test]
    fn tags_tell_banks_apart() {
        for bank in Bank::ALL {
            assert_eq!(Bank::of_tag(bank.tag()), Some(bank));
            assert!(!super::super::section::TAGS.contains(&bank.tag()));
        }
        assert_eq!(Bank::of_tag(super::super::section::CSRS), None);
    }
}
