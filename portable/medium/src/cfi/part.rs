use core::ops::Range;

use embedded_storage_async::nor_flash::{ErrorType, MultiwriteNorFlash, NorFlash, ReadNorFlash};
use poorwill_clock::Clock;

use super::{Cfi, CfiError, Registers};

/// The usual erase unit: a block of two chips side by side with 128 KiB each.
pub const UNIT_BYTES: usize = 0x4_0000;

const WORD: usize = 4;

/// The bytes of a run: the chips return to read-array mode after each run of writes.
const RUN: usize = 64;

/// Some blocks of a bank as NOR flash. Its futures never wait. Offsets are in bytes from
/// the start of the part.
#[derive(Debug)]
pub struct Part<R, K, const UNIT: usize = UNIT_BYTES> {
    bank: Cfi<R, K>,
    range: Range<u64>,
    failure: Option<CfiError>,
}

impl<R: Registers, K: Clock, const UNIT: usize> Part<R, K, UNIT> {
    /// The NOR flash in `range` of a bank, in bytes from the bank's start. An erase unit
    /// has `UNIT` bytes and may be several blocks.
    ///
    /// # Errors
    ///
    /// [`CfiError::Blocks`] unless each unit consists of whole blocks.
    pub fn new(bank: Cfi<R, K>, range: Range<u64>) -> Result<Self, CfiError> {
        let unit = UNIT as u64;
        let error = CfiError::Blocks {
            start: range.start,
            end: range.end,
            unit,
        };
        let length = range.end.checked_sub(range.start).ok_or(error)?;
        if unit == 0 || !length.is_multiple_of(unit) || u32::try_from(length).is_err() {
            return Err(error);
        }
        for start in range.clone().step_by(UNIT) {
            let mut next = start;
            while next < start + unit {
                let (block, bytes) = bank.geometry().block_at(next).ok_or(error)?;
                if block != next {
                    return Err(error);
                }
                next += bytes;
            }
            if next != start + unit {
                return Err(error);
            }
        }
        Ok(Part {
            bank,
            range,
            failure: None,
        })
    }

    /// The latest failure in detail: users of the traits only see its kind.
    #[must_use]
    pub fn failure(&self) -> Option<CfiError> {
        self.failure
    }

    /// Whether all blocks outside the part are erased. For a bank with other data this is
    /// usually clear from its first bytes; an erased bank is read completely.
    #[must_use]
    pub fn is_rest_erased(&self) -> bool {
        let rest = [
            0..self.range.start,
            self.range.end..self.bank.geometry().bytes,
        ];
        let mut bytes = [0; RUN];
        rest.into_iter()
            .flat_map(|range| range.step_by(RUN))
            .all(|offset| {
                self.bank.read(offset, &mut bytes);
                bytes.iter().all(|byte| *byte == u8::MAX)
            })
    }

    /// Returns the bank.
    #[must_use]
    pub fn into_bank(self) -> Cfi<R, K> {
        self.bank
    }

    /// The offset in the bank for `length` bytes at `offset`.
    fn locate(&self, unit: usize, offset: u32, length: usize) -> Result<u64, CfiError> {
        let offset = u64::from(offset);
        let end = offset.saturating_add(length as u64);
        if end > self.range.end - self.range.start {
            return Err(CfiError::OutOfRange { offset, end });
        }
        if !offset.is_multiple_of(unit as u64) || !length.is_multiple_of(unit) {
            return Err(CfiError::Misaligned(self.range.start + offset));
        }
        Ok(self.range.start + offset)
    }

    fn try_erase(&self, from: u32, to: u32) -> Result<(), CfiError> {
        let length = to.checked_sub(from).ok_or(CfiError::OutOfRange {
            offset: u64::from(from),
            end: u64::from(to),
        })?;
        let start = self.locate(UNIT, from, length as usize)?;
        let end = start + u64::from(length);
        let mut next = start;
        while let Some((block, bytes)) = self.bank.geometry().block_at(next)
            && block < end
        {
            self.bank.unlock(block)?;
            self.bank.erase(block)?;
            next = block + bytes;
        }
        Ok(())
    }

    /// Programs the words that differ. Some models and chips replace a word instead of
    /// clearing bits, so each written word includes the bits that are already clear.
    fn try_write(&self, offset: u32, bytes: &[u8]) -> Result<(), CfiError> {
        let start = self.locate(WORD, offset, bytes.len())?;
        for (run, start) in bytes.chunks(RUN).zip((start..).step_by(RUN)) {
            let mut words = [0; RUN];
            let words = &mut words[..run.len()];
            self.bank.read(start, words);
            self.program_run(start, words, run)?;
            self.bank.read_array();
        }
        Ok(())
    }

    /// Programs words with contents `old` so that they become `old & new`.
    fn program_run(&self, start: u64, old: &[u8], new: &[u8]) -> Result<(), CfiError> {
        let width = self.bank.width();
        let mut unlocked = None;
        for ((old, new), offset) in old
            .chunks(width)
            .zip(new.chunks(width))
            .zip((start..).step_by(width))
        {
            let mut word = [0; WORD];
            for (word, (old, new)) in word.iter_mut().zip(old.iter().zip(new)) {
                *word = old & new;
            }
            let word = &word[..width];
            if word == old {
                continue;
            }
            let block = self.bank.geometry().block_at(offset);
            if let Some((block, _)) = block
                && unlocked != Some(block)
            {
                self.bank.unlock(block)?;
                unlocked = Some(block);
            }
            self.bank.program(offset, word)?;
        }
        Ok(())
    }

    fn note(&mut self, result: Result<(), CfiError>) -> Result<(), CfiError> {
        if let Err(error) = result {
            self.failure = Some(error);
        }
        result
    }
}

impl<R, K, const UNIT: usize> ErrorType for Part<R, K, UNIT> {
    type Error = CfiError;
}

impl<R: Registers, K: Clock, const UNIT: usize> ReadNorFlash for Part<R, K, UNIT> {
    const READ_SIZE: usize = WORD;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), CfiError> {
        let located = self.locate(WORD, offset, bytes.len());
        if let Ok(offset) = located {
            self.bank.read(offset, bytes);
        }
        self.note(located.map(|_| ()))
    }

    fn capacity(&self) -> usize {
        // `new` has checked that it fits.
        usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX)
    }
}

impl<R: Registers, K: Clock, const UNIT: usize> NorFlash for Part<R, K, UNIT> {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = UNIT;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), CfiError> {
        let result = self.try_erase(from, to);
        self.bank.read_array();
        self.note(result)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), CfiError> {
        let result = self.try_write(offset, bytes);
        self.bank.read_array();
        self.note(result)
    }
}

impl<R: Registers, K: Clock, const UNIT: usize> MultiwriteNorFlash for Part<R, K, UNIT> {}
