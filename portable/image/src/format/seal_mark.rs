//! What an image says of its seal.

use core::fmt;

use super::digest::Digest;

/// Tells keys apart without telling anything else about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId(pub [u8; 16]);

/// Random bytes of one image. Its generation alone makes its nonces unique;
/// these keep them so should a generation ever be counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub [u8; 8]);

/// The seal that an image bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealMark {
    /// Which key it was made with.
    pub key: KeyId,
    /// Its random bytes.
    pub salt: Salt,
    /// The header's own tag.
    pub(crate) tag: Digest,
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
