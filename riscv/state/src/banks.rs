//! A hart's banks ([`Bank`]) as sections of a machine's state.

use arrayvec::ArrayVec;
use poorwill_hart::{Bank, BankAccess, MAX_RECORDS, PRIORITY_WORDS, RECORD_WORDS};
use poorwill_image::{StateError, StateSection, StateSections, StateWriter};
use zerocopy::FromBytes;

/// Writes a section for each bank of the calling hart.
///
/// # Errors
///
/// [`StateError::NoRoom`].
pub fn write(hart: &impl BankAccess, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    for bank in Bank::ALL {
        if hart.bank_words(bank) > 0 {
            let mut section = into.begin(bank.tag(), 0, Bank::VERSION);
            hart.read_bank(bank, |word| section.append(&word))?;
            section.end()?;
        }
    }
    Ok(())
}

/// Maximum bytes of the calling hart's banks, without their sections' headers.
pub fn most_bytes(hart: &impl BankAccess) -> usize {
    let words = Bank::ALL.into_iter().map(|bank| hart.bank_words(bank));
    words.sum::<usize>() * size_of::<u64>()
}

/// The words of a section, if it is a bank's and fits the calling hart.
fn fitting<'a>(hart: &impl BankAccess, section: &StateSection<'a>) -> Option<(Bank, &'a [u64])> {
    let bank = Bank::of_tag(section.owner)?;
    let words = <[u64]>::ref_from_bytes(section.payload).ok()?;
    let fits = section.version == Bank::VERSION && bank.check(words.len(), hart).is_ok();
    fits.then_some((bank, words))
}

/// Returns whether the section is a bank's and fits the calling hart.
pub fn is_fitting(hart: &impl BankAccess, section: &StateSection<'_>) -> bool {
    fitting(hart, section).is_some()
}

/// Restores the banks in the sections, after the CSRs.
pub fn restore(hart: &impl BankAccess, sections: &[StateSection<'_>]) {
    for (bank, words) in sections.iter().filter_map(|section| fitting(hart, section)) {
        hart.write_bank(bank, words);
    }
}

/// Maximum words of guest interrupt files in a sleep: 64 files of 255 identities. A larger maximum
/// would slow down each start, which clears this memory.
const MOST_GUEST_WORDS: usize = 64 * 10;

/// Maximum words of all banks in a sleep.
const MOST_WORDS: usize = PRIORITY_WORDS + MAX_RECORDS * RECORD_WORDS + MOST_GUEST_WORDS;

/// Writes the banks of a hart for a later wake.
///
/// # Errors
///
/// [`StateError::NoRoom`], also if a wake would not have room for them.
pub fn write_to_wake(hart: &impl BankAccess, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let (needed, left) = (most_bytes(hart), MOST_WORDS * size_of::<u64>());
    if needed > left {
        let owner = Bank::GuestFiles.tag();
        return Err(StateError::NoRoom {
            owner,
            needed,
            left,
        });
    }
    write(hart, into)
}

/// The banks of a waking hart.
#[derive(Debug)]
pub struct WakingBanks {
    /// The number of words of each.
    banks: ArrayVec<(Bank, usize), { Bank::ALL.len() }>,
    /// The words of all.
    words: ArrayVec<u64, MOST_WORDS>,
}

impl Default for WakingBanks {
    fn default() -> Self {
        Self::new()
    }
}

impl WakingBanks {
    /// No banks.
    #[must_use]
    pub const fn new() -> Self {
        WakingBanks {
            banks: ArrayVec::new_const(),
            words: ArrayVec::new_const(),
        }
    }

    /// Takes the banks out of a machine's state, for [`put_back`](Self::put_back).
    ///
    /// # Errors
    ///
    /// [`StateError`] if one does not fit the hart.
    pub fn take(
        &mut self,
        hart: &impl BankAccess,
        sections: &mut StateSections<'_>,
    ) -> Result<(), StateError> {
        self.banks.clear();
        self.words.clear();
        for bank in Bank::ALL {
            let Some(section) = sections.take(bank.tag(), 0) else {
                continue;
            };
            let Some((bank, words)) = fitting(hart, &section) else {
                return Err(section.refuse());
            };
            if self.words.try_extend_from_slice(words).is_err() {
                return Err(section.refuse());
            }
            self.banks.push((bank, words.len()));
        }
        Ok(())
    }

    /// Restores the banks of the last [`take`](Self::take), once, after the CSRs.
    pub fn put_back(&mut self, hart: &impl BankAccess) {
        let mut left = self.words.as_slice();
        for (bank, length) in &self.banks {
            let (words, rest) = left.split_at(*length);
            hart.write_bank(*bank, words);
            left = rest;
        }
        self.banks.clear();
    }
}
