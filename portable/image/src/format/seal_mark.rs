//! The parameters of an image's seal, as its header stores them.

use core::fmt;

use super::digest::Digest;

/// The identifier of a key. It reveals nothing else about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId(pub [u8; 16]);

/// Random bytes of one image. The generation alone makes its nonces unique; these bytes
/// keep them unique even if a generation is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub [u8; 8]);

/// The parameters of an image's seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealMark {
    /// The key that sealed the image.
    pub key: KeyId,
    /// The image's random bytes.
    pub salt: Salt,
    pub(crate) tag: Digest,
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
