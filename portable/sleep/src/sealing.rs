//! The use of the machine's vault for images.

use poorwill_image::{SealingKey, Trust};
use poorwill_store::RecordFormat;
use poorwill_vault::{Key, KeyState, KeyVault, RollbackCounter};

use crate::event::Event;
use crate::machine::{LentVault, Machine};
use crate::vault_state::{VaultFault, VaultState};

/// Whether images are sealed, and with which key.
#[derive(Clone, Debug)]
pub(crate) enum Sealing {
    /// Images are plain.
    Plain,
    /// Images are sealed with this key.
    Sealed(SealingKey),
    /// The vault has no key, or cannot be read.
    NoKey {
        /// The key was erased on purpose.
        erased: bool,
    },
}

impl Sealing {
    /// The sealing at a start, by the state of the vault. A set is plain.
    pub(crate) fn at_wake<M: Machine>(machine: &M) -> Self {
        if machine.format() == RecordFormat::Set {
            return Sealing::Plain;
        }
        match machine.vault().state() {
            VaultState::Absent => Sealing::Plain,
            VaultState::Open(vault) => Sealing::of(vault),
            VaultState::Broken(error) => {
                machine.say(&Event::Vault(error));
                Sealing::NoKey { erased: false }
            }
        }
    }

    /// The sealing at a sleep. A vault without a key gets one. A set is plain, since after a failure
    /// only the last domain's memory could be opened again.
    ///
    /// # Errors
    ///
    /// [`VaultFault`]: the vault exists, but cannot be used.
    pub(crate) fn at_sleep<M: Machine>(machine: &M) -> Result<Self, VaultFault> {
        if machine.format() == RecordFormat::Set {
            return Ok(Sealing::Plain);
        }
        match machine.vault().state() {
            VaultState::Absent => Ok(Sealing::Plain),
            VaultState::Broken(error) => Err(error),
            VaultState::Open(vault) => {
                if vault.key().is_none() {
                    vault.install_key(Key::new(&machine.new_key()))?;
                    machine.say(&Event::NewKey);
                }
                Ok(Sealing::of(vault))
            }
        }
    }

    fn of(vault: &dyn KeyVault) -> Self {
        match vault.key() {
            Some(key) => Sealing::Sealed(SealingKey::new(*key.bytes())),
            None => Sealing::NoKey {
                erased: vault.key_state() == KeyState::Erased,
            },
        }
    }

    /// The images that may wake.
    pub(crate) fn trust(&self) -> Trust<'_> {
        match self {
            Sealing::Plain => Trust::Plain,
            Sealing::Sealed(key) => Trust::Sealed(key),
            Sealing::NoKey { erased } => Trust::NoKey { erased: *erased },
        }
    }

    /// The key for a new image.
    pub(crate) fn key(&self) -> Option<&SealingKey> {
        match self {
            Sealing::Sealed(key) => Some(key),
            Sealing::Plain | Sealing::NoKey { .. } => None,
        }
    }
}

/// The vault's counter, if there is a vault.
pub(crate) fn counter(vault: &mut impl LentVault) -> Option<&mut dyn RollbackCounter> {
    match vault.state() {
        VaultState::Open(vault) => Some(vault),
        VaultState::Absent | VaultState::Broken(_) => None,
    }
}

/// Forbids all images to wake, also those on disks that are not connected.
pub(crate) fn disarm<M: Machine>(machine: &M) {
    let mut vault = machine.vault();
    if let Some(counter) = counter(&mut vault)
        && let Err(error) = counter.disarm()
    {
        machine.say(&Event::StillArmed(error));
    }
}
