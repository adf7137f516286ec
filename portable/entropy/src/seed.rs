//! The seed CSR (RISC-V cryptography extensions, volume I: Zkr).

use thiserror::Error;

/// The number of reads without random bits before the source counts as silent. A
/// self-test after a reset may take a while.
const PATIENCE: u32 = 1_000_000;

/// The reason why an entropy source gives no usable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SeedError {
    /// The source failed its self-test; only a reset can revive it.
    #[error("the entropy source has failed its self-test")]
    Dead,
    /// The source stayed busy.
    #[error("the entropy source gives no random bits")]
    Silent,
    /// All reads returned the same 16 bits.
    #[error("the entropy source repeats itself")]
    Constant,
}

/// Fills `into` with random bits, 16 for each read of the CSR. `read` writes zero to the
/// CSR and returns its old value, as the specification requires.
///
/// Each bit has half a bit of entropy: a key of 32 bytes needs at least 64.
///
/// # Errors
///
/// [`SeedError`]: `into` must not be used.
pub fn fill(into: &mut [u8], mut read: impl FnMut() -> u64) -> Result<(), SeedError> {
    let mut first = None;
    let mut varies = false;
    for bytes in into.chunks_mut(2) {
        let bits = one(&mut read)?;
        varies |= *first.get_or_insert(bits) != bits;
        bytes.copy_from_slice(&bits[..bytes.len()]);
    }
    if into.len() > 4 && !varies {
        return Err(SeedError::Constant);
    }
    Ok(())
}

/// The states of the source, in bits 30 and 31.
mod state {
    pub(super) const SELF_TEST: u64 = 0b00;
    pub(super) const WAIT: u64 = 0b01;
    pub(super) const RANDOM: u64 = 0b10;
}

fn one(read: &mut impl FnMut() -> u64) -> Result<[u8; 2], SeedError> {
    for _ in 0..PATIENCE {
        let value = read();
        match value >> 30 & 0b11 {
            state::SELF_TEST | state::WAIT => core::hint::spin_loop(),
            state::RANDOM => {
                let [low, high, ..] = value.to_le_bytes();
                return Ok([low, high]);
            }
            _ => return Err(SeedError::Dead),
        }
    }
    Err(SeedError::Silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELF_TEST: u64 = 0;
    const WAIT: u64 = 1 << 30;
    const RANDOM: u64 = 2 << 30;
    const DEAD: u64 = 3 << 30;

    fn fill_from(values: &[u64], length: usize) -> (Result<(), SeedError>, Vec<u8>) {
        let mut values = values.iter().copied().cycle();
        let mut bytes = vec![0; length];
        let result = fill(&mut bytes, || values.next().unwrap());
        (result, bytes)
    }

    #[test]
    fn bits_are_taken_only_in_the_state_that_has_them() {
        let values = [
            SELF_TEST | 0xdead,
            WAIT | 0xbeef,
            RANDOM | 0x2211,
            WAIT,
            // Bits 16 to 29 are reserved or the maker's own.
            RANDOM | 0x3fff_4433,
            SELF_TEST,
            RANDOM | 0x6655,
        ];
        let (result, bytes) = fill_from(&values, 5);
        assert_eq!(result, Ok(()));
        assert_eq!(bytes, [0x11, 0x22, 0x33, 0x44, 0x55]);
    }

    #[test]
    fn a_dead_source_is_an_error_at_any_time() {
        assert_eq!(fill_from(&[DEAD], 2).0, Err(SeedError::Dead));
        let (result, _) = fill_from(&[RANDOM | 1, WAIT, DEAD | 2], 4);
        assert_eq!(result, Err(SeedError::Dead));
    }

    #[test]
    fn a_source_that_stays_busy_is_given_up() {
        assert_eq!(fill_from(&[WAIT], 2).0, Err(SeedError::Silent));
        assert_eq!(fill_from(&[SELF_TEST, WAIT], 2).0, Err(SeedError::Silent));
    }

    #[test]
    fn a_source_that_repeats_itself_is_an_error() {
        assert_eq!(fill_from(&[RANDOM | 7], 64).0, Err(SeedError::Constant));
        // Of few bits that can be chance.
        assert_eq!(fill_from(&[RANDOM | 7], 4).0, Ok(()));
    }
}
