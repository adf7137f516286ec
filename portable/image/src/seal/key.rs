//! Keys, and the images that they open.

use core::fmt;

use chacha20::cipher::array::Array;
use chacha20::{R20, hchacha};
use thiserror::Error;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::format::digest::Digest;
use crate::format::seal_mark::{KeyId, Salt, SealMark};

/// A machine's key that seals its images.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SealingKey(pub(super) [u8; 32]);

/// The parameters for sealing an image.
#[derive(Clone, Copy, Debug)]
pub struct Seal<'k> {
    /// The machine's key.
    pub key: &'k SealingKey,
    /// Random bytes, new for each image.
    pub salt: Salt,
}

/// The images that a machine trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'k> {
    /// The machine has no store for a key: it trusts plain images.
    Plain,
    /// Only images that are sealed with this key.
    Sealed(&'k SealingKey),
    /// The machine has a store for a key, but the store is empty: it trusts no image.
    NoKey {
        /// A user has erased the key.
        erased: bool,
    },
}

/// The reason why a machine does not trust an image's seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// A sealed image on a machine without a store for a key.
    #[error("it is sealed, and this machine has no flash that holds a key")]
    NoPlace,
    /// A sealed image on a machine that never had a key.
    #[error("it is sealed, and this machine has no key yet")]
    NoKey,
    /// A sealed image on a machine whose key was erased.
    #[error("it is sealed, and the key was erased")]
    Erased,
    /// The image is sealed with another machine's key or an old key.
    #[error("it is sealed with another key")]
    OtherKey,
    /// A plain image on a machine with a store for a key.
    #[error("it is not sealed, and this machine wakes sealed images only")]
    NotSealed,
    /// The header's tag is wrong: the image is forged or damaged.
    #[error("its header is not authentic")]
    Forged,
}

impl Seal<'_> {
    /// The seal's parameters for the header, without the tag.
    pub(crate) fn mark(&self) -> SealMark {
        SealMark {
            key: self.key.id(),
            salt: self.salt,
            tag: Digest::ZERO,
        }
    }
}

impl SealingKey {
    /// The key with these bytes, which must be secret.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        SealingKey(bytes)
    }

    /// The key's identifier in images.
    #[must_use]
    pub fn id(&self) -> KeyId {
        // No generation reaches the value of these letters, so no nonce starts like this.
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
    /// The key for an image with this mark; `None` for a plain image.
    ///
    /// # Errors
    ///
    /// [`SealError`], except [`SealError::Forged`].
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
