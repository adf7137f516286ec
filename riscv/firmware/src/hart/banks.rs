//! A hart's banks ([`Bank`]) as sections of a machine's state.

use arrayvec::ArrayVec;
use poorwill_arch::OsContext;
use poorwill_hart::{Bank, BankAccess, MAX_RECORDS, PRIORITY_WORDS, RECORD_WORDS};
use poorwill_image::{StateError, StateSection, StateSections, StateWriter};
use spin::Mutex;
use zerocopy::FromBytes;

/// Writes a section for each bank of the calling hart.
///
/// # Errors
///
/// [`StateError::NoRoom`].
pub(crate) fn write(hart: &OsContext, into: &mut StateWriter<'_>) -> Result<(), StateError> {
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
pub(crate) fn most_bytes(hart: &OsContext) -> usize {
    let words = Bank::ALL.into_iter().map(|bank| hart.bank_words(bank));
    words.sum::<usize>() * size_of::<u64>()
}

/// The words of a section, if it is a bank's and fits the calling hart.
fn fitting<'a>(hart: &OsContext, section: &StateSection<'a>) -> Option<(Bank, &'a [u64])> {
    let bank = Bank::of_tag(section.owner)?;
    let words = <[u64]>::ref_from_bytes(section.payload).ok()?;
    let fits = section.version == Bank::VERSION && bank.check(words.len(), hart).is_ok();
    fits.then_some((bank, words))
}

/// Returns whether the section is a bank's and fits the calling hart.
pub(crate) fn is_fitting(hart: &OsContext, section: &StateSection<'_>) -> bool {
    fitting(hart, section).is_some()
}

/// Restores the banks in the sections, after the CSRs.
pub(crate) fn restore(hart: &OsContext, sections: &[StateSection<'_>]) {
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
pub(crate) fn write_to_wake(
    hart: &OsContext,
    into: &mut StateWriter<'_>,
) -> Result<(), StateError> {
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

/// The banks of a waking hart: the number of words of each, and the words of all.
struct Kept {
    banks: ArrayVec<(Bank, usize), { Bank::ALL.len() }>,
    words: ArrayVec<u64, MOST_WORDS>,
}

static WAKING: Mutex<Kept> = Mutex::new(Kept {
    banks: ArrayVec::new_const(),
    words: ArrayVec::new_const(),
});

/// Takes the banks out of a machine's state, for [`put_back`].
///
/// # Errors
///
/// [`StateError`] if one does not fit.
pub(crate) fn take(hart: &OsContext, sections: &mut StateSections<'_>) -> Result<(), StateError> {
    let mut kept = WAKING.lock();
    kept.banks.clear();
    kept.words.clear();
    for bank in Bank::ALL {
        let Some(section) = sections.take(bank.tag(), 0) else {
            continue;
        };
        let Some((bank, words)) = fitting(hart, &section) else {
            return Err(section.refuse());
        };
        if kept.words.try_extend_from_slice(words).is_err() {
            return Err(section.refuse());
        }
        kept.banks.push((bank, words.len()));
    }
    Ok(())
}

/// Restores the banks of the last [`take`], once, after the CSRs.
pub(crate) fn put_back(hart: &OsContext) {
    let mut kept = WAKING.lock();
    let mut left = kept.words.as_slice();
    for (bank, length) in &kept.banks {
        let (words, rest) = left.split_at(*length);
        hart.write_bank(*bank, words);
        left = rest;
    }
    kept.banks.clear();
}
