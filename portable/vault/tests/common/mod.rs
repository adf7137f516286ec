//! NOR flash whose power goes at a chosen word or erase.
#![allow(dead_code, reason = "each test uses a part")]

use embedded_storage_async::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashErrorKind, ReadNorFlash,
};

pub(crate) const WORD: usize = 4;

/// What the power cut leaves of the step it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Torn {
    /// Nothing of it happened.
    Before,
    /// All of it happened.
    After,
    /// A word: any part of the bits that were to be cleared. A block: each word
    /// is as before, blank, all zeros or anything.
    Mix(u64),
    /// A word as [`Torn::Mix`]. A block: all zeros, as where chips program
    /// before they erase.
    Zeros(u64),
    /// A word as [`Torn::Mix`]. A block: blank but for the inside, or for its
    /// ends.
    Ends(u64),
}

/// Two blocks' worth of state a test can look at; `BLOCK` bytes a block.
#[derive(Clone, Debug)]
pub(crate) struct CutFlash<const BLOCK: usize> {
    pub(crate) bytes: Vec<u8>,
    /// Words programmed and blocks erased.
    pub(crate) steps: u64,
    pub(crate) erases: u64,
    /// The step that the power goes in.
    pub(crate) cut: Option<(u64, Torn)>,
    /// The step that fails, from 0, with the power on; and how many do.
    pub(crate) fail: Option<(u64, u64)>,
    /// Writes are acknowledged and lost from this step on.
    pub(crate) loses_from: Option<u64>,
    is_off: bool,
}

impl<const BLOCK: usize> CutFlash<BLOCK> {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        CutFlash {
            bytes,
            steps: 0,
            erases: 0,
            cut: None,
            fail: None,
            loses_from: None,
            is_off: false,
        }
    }

    /// The flash that this one is after the next power-on.
    pub(crate) fn powered(&self) -> Self {
        CutFlash::new(self.bytes.clone())
    }

    pub(crate) fn cut_at(mut self, step: u64, torn: Torn) -> Self {
        self.cut = Some((self.steps + step, torn));
        self
    }

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        // Eight bytes of a key in a row are enough to call it found.
        key.chunks(8)
            .any(|part| self.bytes.windows(8).any(|window| window == part))
    }

    /// Whether this step happens, and how.
    fn step(&mut self) -> Result<Torn, NorFlashErrorKind> {
        if self.is_off {
            return Err(NorFlashErrorKind::Other);
        }
        let step = self.steps;
        self.steps += 1;
        if let Some((at, torn)) = self.cut
            && at == step
        {
            self.is_off = true;
            return Ok(torn);
        }
        if let Some((first, count)) = self.fail
            && (first..first + count).contains(&step)
        {
            return Err(NorFlashErrorKind::Other);
        }
        if self.loses_from.is_some_and(|first| step >= first) {
            return Ok(Torn::Before);
        }
        Ok(Torn::After)
    }

    fn end(&self) -> Result<(), NorFlashErrorKind> {
        if self.is_off {
            return Err(NorFlashErrorKind::Other);
        }
        Ok(())
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

impl<const BLOCK: usize> ErrorType for CutFlash<BLOCK> {
    type Error = NorFlashErrorKind;
}

impl<const BLOCK: usize> ReadNorFlash for CutFlash<BLOCK> {
    const READ_SIZE: usize = WORD;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.end()?;
        assert!((offset as usize | bytes.len()).is_multiple_of(WORD));
        let start = offset as usize;
        bytes.copy_from_slice(&self.bytes[start..start + bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

impl<const BLOCK: usize> NorFlash for CutFlash<BLOCK> {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = BLOCK;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        for start in (from as usize..to as usize).step_by(BLOCK) {
            let torn = self.step()?;
            let block = &mut self.bytes[start..start + BLOCK];
            match torn {
                Torn::Before => {}
                Torn::After => block.fill(0xff),
                Torn::Zeros(_) => block.fill(0),
                Torn::Ends(seed) if seed % 2 == 0 => block[WORD..BLOCK - WORD].fill(0xff),
                Torn::Ends(_) => {
                    block[..WORD].fill(0xff);
                    block[BLOCK - WORD..].fill(0xff);
                }
                Torn::Mix(mut seed) => {
                    for word in block.chunks_mut(WORD) {
                        match random(&mut seed) % 4 {
                            0 => {}
                            1 => word.fill(0xff),
                            2 => word.fill(0),
                            _ => word.copy_from_slice(&random(&mut seed).to_le_bytes()[..WORD]),
                        }
                    }
                }
            }
            self.erases += 1;
        }
        self.end()
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        assert!((offset as usize | bytes.len()).is_multiple_of(WORD));
        for (index, word) in bytes.chunks(WORD).enumerate() {
            let torn = self.step()?;
            let start = offset as usize + index * WORD;
            let kept = match torn {
                Torn::Before => [0xff; WORD],
                Torn::After => [0; WORD],
                Torn::Mix(mut seed) | Torn::Zeros(mut seed) | Torn::Ends(mut seed) => {
                    seed ^= self.steps;
                    let mut kept = [0; WORD];
                    kept.copy_from_slice(&random(&mut seed).to_le_bytes()[..WORD]);
                    kept
                }
            };
            for ((old, new), kept) in self.bytes[start..].iter_mut().zip(word).zip(kept) {
                *old &= new | kept;
            }
            self.end()?;
        }
        Ok(())
    }
}

impl<const BLOCK: usize> MultiwriteNorFlash for CutFlash<BLOCK> {}
