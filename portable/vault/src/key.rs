use core::fmt;

use zeroize::Zeroize;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// The sealing key. Its bytes are zeroed when it is dropped and never printed.
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key of these bytes. The caller's own copy is the caller's to zero.
    #[must_use]
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        Key(*bytes)
    }

    /// The key's bytes, for the cipher.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

/// Whether a vault has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// There has been none since the vault was new.
    Missing,
    /// There is one.
    Present,
    /// The last one was erased on purpose.
    Erased,
}

/// The key, or why there is none.
#[derive(Debug)]
pub(crate) enum Secret {
    Missing,
    Present(Key),
    Erased,
}

impl Secret {
    pub(crate) fn state(&self) -> KeyState {
        match self {
            Secret::Missing => KeyState::Missing,
            Secret::Present(_) => KeyState::Present,
            Secret::Erased => KeyState::Erased,
        }
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Secret::Present(key) => Some(key),
            Secret::Missing | Secret::Erased => None,
        }
    }
}
