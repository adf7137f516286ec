//! The calling hart's banks of OS state: interrupt priorities, control transfer records, guest
//! interrupt files.

use poorwill_drivers::imsic::InterruptFile;
use poorwill_drivers::{Keeper, Registers, State};
use poorwill_hart::{Bank, BankAccess, MAX_RECORDS, PRIORITY_WORDS, RECORD_WORDS};

use crate::imsic::{GuestFile, SupervisorFile, guest_files};
use crate::{OsContext, csr};

/// Values of `siselect` for the interrupt priorities. RV64 has only the even ones; each register
/// holds two of RV32's.
fn priorities() -> impl Iterator<Item = u64> {
    (0x30..0x40).step_by(2)
}

/// Number of the newest control transfer record.
const FIRST_RECORD: u64 = 0x200;

/// Number of records if `sctrdepth` is zero.
const FEWEST_RECORDS: usize = 16;

/// Returns whether the hart has interrupt priorities. A hart may have `siselect` without them.
fn has_priorities() -> bool {
    let Some(selected) = csr::try_read::<{ csr::SISELECT }>() else {
        return false;
    };
    // SAFETY: siselect only selects the register behind sireg. The OS's value is restored below.
    unsafe { csr::write::<{ csr::SISELECT }>(0x30) };
    let is_there = csr::try_read::<{ csr::SIREG }>().is_some();
    // SAFETY: as above.
    unsafe { csr::write::<{ csr::SISELECT }>(selected) };
    is_there
}

/// Number of records that the OS has chosen; 0 on a hart without records.
fn records() -> usize {
    let depth = csr::try_read::<{ csr::SCTRDEPTH }>();
    depth.map_or(0, |depth| (FEWEST_RECORDS << (depth & 7)).min(MAX_RECORDS))
}

impl OsContext {
    /// The guest interrupt files.
    fn guest_files(&self) -> impl Iterator<Item = InterruptFile<GuestFile>> {
        let files = self.file().into_iter();
        files.flat_map(|file| {
            (1..=u64::from(guest_files())).map(|guest| file.sibling(GuestFile(guest)))
        })
    }
}

impl BankAccess for OsContext {
    fn bank_words(&self, bank: Bank) -> usize {
        match bank {
            Bank::Priorities if has_priorities() => PRIORITY_WORDS,
            Bank::Records if records() > 0 => MAX_RECORDS * RECORD_WORDS,
            Bank::Priorities | Bank::Records => 0,
            Bank::GuestFiles => self.guest_files().map(|file| file.offsets().count()).sum(),
        }
    }

    fn read_bank<E>(
        &self,
        bank: Bank,
        mut each: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match bank {
            Bank::Priorities if has_priorities() => {
                priorities().try_for_each(|number| each(SupervisorFile.read(number)))
            }
            Bank::Priorities => Ok(()),
            Bank::Records => (FIRST_RECORD..).take(records()).try_for_each(|number| {
                SupervisorFile::select(number, || {
                    each(csr::read::<{ csr::SIREG }>())?;
                    each(csr::read::<{ csr::SIREG2 }>())?;
                    each(csr::read::<{ csr::SIREG3 }>())
                })
            }),
            Bank::GuestFiles => {
                (self.guest_files()).try_for_each(|file| file.capture().try_for_each(&mut each))
            }
        }
    }

    fn write_bank(&self, bank: Bank, words: &[u64]) {
        match bank {
            Bank::Priorities => {
                let numbers = priorities().zip(words);
                numbers.for_each(|(number, word)| SupervisorFile.write(number, *word));
            }
            Bank::Records => {
                let records = words.chunks_exact(RECORD_WORDS);
                for (number, record) in (FIRST_RECORD..).zip(records) {
                    // SAFETY: the records are the OS's.
                    SupervisorFile::select(number, || unsafe {
                        csr::write::<{ csr::SIREG }>(record[0]);
                        csr::write::<{ csr::SIREG2 }>(record[1]);
                        csr::write::<{ csr::SIREG3 }>(record[2]);
                    });
                }
            }
            Bank::GuestFiles => {
                let mut left = words;
                for file in self.guest_files() {
                    let (own, rest) = left.split_at(file.offsets().count().min(left.len()));
                    left = rest;
                    let state: State<&[u64]> = file.check(own).expect("the bank was checked");
                    file.restore(&state);
                }
            }
        }
    }
}
