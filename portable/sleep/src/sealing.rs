//! What the machine's vault says of images.

use poorwill_image::{SealingKey, Trust};
use poorwill_vault::{Key, KeyState, KeyVault, RollbackCounter};

use crate::event::Event;
use crate::machine::{LentVault, Machine};
use crate::vault_state::{VaultFault, VaultState};

/// Whether and how images are sealed.
#[derive(Clone, Debug)]
pub(crate) enum Sealing {
    /// They are plain.
    Plain,
    /// They are sealed.
    Sealed(SealingKey),
    /// There is no key, or it cannot be read.
    NoKey {
        /// It was erased on purpose.
        erased: bool,
    },
}

impl Sealing {
    /// How the images of a machine that starts are protected, by the state of its vault.
    pub(crate) fn at_wake<M: Machine>(machine: &M) -> Self {
        match machine.vault().state() {
            VaultState::Absent => Sealing::Plain,
            VaultState::Open(vault) => Sealing::of(vault),
            VaultState::Broken(error) => {
                machine.say(&Event::Vault(error));
                Sealing::NoKey { erased: false }
            }
        }
    }

    /// For a sleep. A vault without a key gets one.
    ///
    /// # Errors
    ///
    /// There is a vault, and it cannot be used.
    pub(crate) fn at_sleep<M: Machine>(machine: &M) -> Result<Self, VaultFault> {
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

    /// Which images may wake.
    pub(crate) fn trust(&self) -> Trust<'_> {
        match self {
            Sealing::Plain => Trust::Plain,
            Sealing::Sealed(key) => Trust::Sealed(key),
            Sealing::NoKey { erased } => Trust::NoKey { erased: *erased },
        }
    }

    /// The key to seal with.
    pub(crate) fn key(&self) -> Option<&SealingKey> {
        match self {
            Sealing::Sealed(key) => Some(key),
            Sealing::Plain | Sealing::NoKey { .. } => None,
        }
    }
}

/// The vault's counter, where there is one.
pub(crate) fn counter(vault: &mut impl LentVault) -> Option<&mut dyn RollbackCounter> {
    match vault.state() {
        VaultState::Open(vault) => Some(vault),
        VaultState::Absent | VaultState::Broken(_) => None,
    }
}

/// Lets no image wake any more that there may be anywhere.
pub(crate) fn disarm<M: Machine>(machine: &M) {
    let mut vault = machine.vault();
    if let Some(counter) = counter(&mut vault)
        && let Err(error) = counter.disarm()
    {
        machine.say(&Event::StillArmed(error));
    }
}
