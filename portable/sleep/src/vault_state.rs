//! What a machine has for a vault.

use core::fmt;

use poorwill_medium::cfi::CfiError;
use poorwill_vault::{KeyVault, VaultError};
use thiserror::Error;

/// Why the vault cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VaultFault {
    /// The flash.
    #[error("the vault's flash: {0}")]
    Flash(#[from] CfiError),
    /// What is in it.
    #[error("{0}")]
    Vault(#[from] VaultError),
}

/// What a machine has for a vault, of which `V` is used.
pub enum VaultState<'v, V: ?Sized + 'v = dyn KeyVault + 'v> {
    /// No flash for one.
    Absent,
    /// It is there, and cannot be used.
    Broken(VaultFault),
    /// It is in use.
    Open(&'v mut V),
}

impl<V: ?Sized> fmt::Debug for VaultState<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VaultState::Absent => "Absent",
            VaultState::Broken(_) => "Broken",
            VaultState::Open(_) => "Open",
        })
    }
}
