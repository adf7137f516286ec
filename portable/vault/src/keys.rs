use embedded_storage_async::nor_flash::MultiwriteNorFlash;

use crate::{CutCounter, Key, KeyState, RollbackCounter, Vault, VaultError};

/// A store of the sealing key and the count of sleeps.
pub trait KeyVault: RollbackCounter {
    /// The key, if there is one.
    fn key(&self) -> Option<&Key>;

    /// Whether there is a key, and if not, whether it was erased on purpose.
    fn key_state(&self) -> KeyState;

    /// Installs the first key durably.
    ///
    /// # Errors
    ///
    /// As [`Vault::install_key`].
    fn install_key(&mut self, key: Key) -> Result<(), VaultError>;
}

/// A [`KeyVault`] that also counts cuts.
pub trait CutVault: KeyVault + CutCounter {}

impl<V: KeyVault + CutCounter> CutVault for V {}

impl<F: MultiwriteNorFlash> KeyVault for Vault<F> {
    fn key(&self) -> Option<&Key> {
        self.key()
    }

    fn key_state(&self) -> KeyState {
        self.key_state()
    }

    fn install_key(&mut self, key: Key) -> Result<(), VaultError> {
        self.install_key(key)
    }
}
