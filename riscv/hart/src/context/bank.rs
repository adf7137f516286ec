//! The OS's state behind select registers, except the S-level interrupt file. It may be long: it
//! is transferred word by word and is not part of a context.

use thiserror::Error;

/// Registers that are accessed through a select register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bank {
    /// The S-level priorities of local interrupts (AIA, 5.2): eight words.
    Priorities,
    /// Control transfer records (Smctr, 5): source, target and data of each, the newest first.
    Records,
    /// The guest interrupt files (AIA, 3.7), each with the layout of an S-level file.
    GuestFiles,
}

/// Words of the priorities.
pub const PRIORITY_WORDS: usize = 8;

/// Words of a record.
pub const RECORD_WORDS: usize = 3;

/// Maximum number of records of a hart.
pub const MAX_RECORDS: usize = 256;

/// A saved bank does not fit this hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{bank:?}: the state has {words} words, but this hart {here}")]
pub struct BankMisfit {
    /// The bank.
    pub bank: Bank,
    /// Words that were saved.
    pub words: usize,
    /// Maximum words on this hart.
    pub here: usize,
}

/// The banks of the calling hart.
pub trait BankAccess {
    /// Maximum words of the bank; 0 on a hart without it.
    fn bank_words(&self, bank: Bank) -> usize;

    /// Reads the bank, and calls `each` for each word until it fails.
    ///
    /// # Errors
    ///
    /// The error of `each`.
    fn read_bank<E>(&self, bank: Bank, each: impl FnMut(u64) -> Result<(), E>) -> Result<(), E>;

    /// Writes the bank, with words that [fit](Bank::check). CSRs must be written before: they
    /// contain the number of records and the newest one.
    fn write_bank(&self, bank: Bank, words: &[u64]);
}

impl Bank {
    /// All banks.
    pub const ALL: [Bank; 3] = [Bank::Priorities, Bank::Records, Bank::GuestFiles];

    /// Version of the banks' sections.
    pub const VERSION: u16 = 1;

    /// Tag of the bank's section.
    #[must_use]
    pub const fn tag(self) -> u32 {
        u32::from_le_bytes(match self {
            Bank::Priorities => *b"PRIO",
            Bank::Records => *b"CTRR",
            Bank::GuestFiles => *b"GEIF",
        })
    }

    /// The bank whose section has this tag.
    #[must_use]
    pub fn of_tag(tag: u32) -> Option<Bank> {
        Self::ALL.into_iter().find(|bank| bank.tag() == tag)
    }

    /// Checks that saved words can be restored on the calling hart. Fewer records than the maximum
    /// fit, since the OS chooses their number.
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

    /// A hart with these numbers of words.
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
