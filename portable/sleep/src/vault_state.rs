//! The state of a machine's vault.

use core::fmt;

use poorwill_medium::cfi::CfiError;
use poorwill_vault::{KeyVault, VaultError};
use thiserror::Error;

/// Why the vault cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VaultFault {
    /// The flash failed.
    #[error("the vault's flash: {0}")]
    Flash(#[from] CfiError),
    /// The vault's contents cannot be used.
    #[error("{0}")]
    Vault(#[from] VaultError),
}

/// The state of a machine's vault, which gives access to `V`.
pub enum VaultState<'v, V: ?Sized + 'v = dyn KeyVault + 'v> {
    /// There is no flash for a vault.
    Absent,
    /// The vault exists, but cannot be used.
    Broken(VaultFault),
    /// The vault can be used.
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
