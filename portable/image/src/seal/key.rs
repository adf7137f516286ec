//! Keys, and which images they open.

use core::fmt;

use chacha20::cipher::array::Array;
use chacha20::{R20, hchacha};
use thiserror::Error;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::format::digest::Digest;
use crate::format::seal_mark::{KeyId, Salt, SealMark};

/// A machine's key for its images.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SealingKey(pub(super) [u8; 32]);

/// How an image is to be sealed.
#[derive(Clone, Copy, Debug)]
pub struct Seal<'k> {
    /// The machine's key.
    pub key: &'k SealingKey,
    /// Random bytes, new for each image.
    pub salt: Salt,
}

/// Which images a machine trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'k> {
    /// The machine has no place for a key: plain ones.
    Plain,
    /// Those that are sealed with this key, and no others.
    Sealed(&'k SealingKey),
    /// The machine has a place for a key, and none in it: no image.
    NoKey {
        /// There was one, and it was erased on purpose.
        erased: bool,
    },
}

/// Why an image's seal does not fit this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// A sealed image, and no place for a key.
    #[error("it is sealed, and this machine has no flash that holds a key")]
    NoPlace,
    /// A sealed image, and no key yet.
    #[error("it is sealed, and this machine has no key yet")]
    NoKey,
    /// A sealed image, and no key any more.
    #[error("it is sealed, and the key was erased")]
    Erased,
    /// Another machine's key, or one that was replaced.
    #[error("it is sealed with another key")]
    OtherKey,
    /// A plain image on a machine that seals.
    #[error("it is not sealed, and this machine wakes sealed images only")]
    NotSealed,
    /// The header's tag does not fit: it was forged, or damaged with care.
    #[error("its header is not authentic")]
    Forged,
}

impl Seal<'_> {
    /// What an image says of this seal, but for the tag.
    pub(crate) fn mark(&self) -> SealMark {
        SealMark {
            key: self.key.id(),
            salt: self.salt,
            tag: Digest::ZERO,
        }
    }
}

impl SealingKey {
    /// The key with these bytes, which nobody can guess.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        SealingKey(bytes)
    }

    /// What images name it by.
    #[must_use]
    pub fn id(&self) -> KeyId {
        // No generation is as high as these letters, so no nonce starts so.
        let derived = hchacha::<R20>(&Array(self.0), &Array(*b"poorwill: key id"));
        let (id, _) = derived.0.split_first_chunk().expect("16 of 32 bytes");
        KeyId(*id)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id())
    }
}

impl Trust<'_> {
    /// The key that an image of mark `mark` is opened with; `None` for a plain
    /// one.
    ///
    /// # Errors
    ///
    /// See [`SealError`]; all but [`SealError::Forged`].
    pub fn key_for(&self, mark: Option<&SealMark>) -> Result<Option<&SealingKey>, SealError> {
        match (self, mark) {
            (Trust::Plain, None) => Ok(None),
            (Trust::Plain, Some(_)) => Err(SealError::NoPlace),
            (_, None) => Err(SealError::NotSealed),
            (Trust::Sealed(key), Some(mark)) if key.id() == mark.key => Ok(Some(key)),
            (Trust::Sealed(_), Some(_)) => Err(SealError::OtherKey),
            (Trust::NoKey { erased: true }, Some(_)) => Err(SealError::Erased),
            (Trust::NoKey { erased: false }, Some(_)) => Err(SealError::NoKey),
        }
    }
}
