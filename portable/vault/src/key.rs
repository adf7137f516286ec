use core::fmt;

use zeroize::Zeroize;

/// The length of a key in bytes.
pub const KEY_BYTES: usize = 32;

/// The sealing key. Its bytes are zeroed on drop and never printed.
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// Copies `bytes`. The caller must zero its own copy.
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
    /// The vault never had a key.
    Missing,
    /// The vault has a key.
    Present,
    /// The last key was erased on purpose.
    Erased,
}

/// The key, or why it is absent.
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
