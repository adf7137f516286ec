//! What the machine's vault says of images.

use poorwill_image::{SealingKey, Trust};
use poorwill_vault::{Guard, Key, KeyState};

use crate::platform::console::say;
use crate::platform::entropy;
use crate::platform::vault::{self, State, Vault, VaultFault};

/// Whether and how images are sealed.
#[derive(Clone, Debug)]
pub(super) enum Sealing {
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
    /// As the vault is at power-on.
    pub(super) fn at_wake() -> Self {
        vault::with(|state| match state {
            State::Absent => Sealing::Plain,
            State::Open(vault) => Sealing::of(vault),
            State::Broken(error) => {
                say!("{error}; no image wakes, and none is made");
                Sealing::NoKey { erased: false }
            }
        })
    }

    /// For a sleep. A vault without a key gets one.
    ///
    /// # Errors
    ///
    /// There is a vault, and it cannot be used.
    pub(super) fn at_sleep() -> Result<Self, VaultFault> {
        vault::with(|state| match state {
            State::Absent => Ok(Sealing::Plain),
            State::Broken(error) => Err(*error),
            State::Open(vault) => {
                if vault.key().is_none() {
                    vault.install_key(Key::new(&entropy::key()))?;
                    say!("a new sealing key is in the vault");
                }
                Ok(Sealing::of(vault))
            }
        })
    }

    fn of(vault: &Vault) -> Self {
        match vault.key() {
            Some(key) => Sealing::Sealed(SealingKey::new(*key.bytes())),
            None => Sealing::NoKey {
                erased: vault.key_state() == KeyState::Erased,
            },
        }
    }

    /// Which images may wake.
    pub(super) fn trust(&self) -> Trust<'_> {
        match self {
            Sealing::Plain => Trust::Plain,
            Sealing::Sealed(key) => Trust::Sealed(key),
            Sealing::NoKey { erased } => Trust::NoKey { erased: *erased },
        }
    }

    /// The key to seal with.
    pub(super) fn key(&self) -> Option<&SealingKey> {
        match self {
            Sealing::Sealed(key) => Some(key),
            Sealing::Plain | Sealing::NoKey { .. } => None,
        }
    }

    /// For the console's lines.
    pub(super) fn word(&self) -> &'static str {
        if self.key().is_some() { "yes" } else { "no" }
    }
}

/// Runs `job` with the vault's guard, where there is one.
pub(super) fn with_guard<R>(job: impl FnOnce(Option<&mut (dyn Guard + 'static)>) -> R) -> R {
    vault::with(|state| match state {
        State::Open(vault) => job(Some(vault)),
        State::Absent | State::Broken(_) => job(None),
    })
}

/// Lets no image wake any more that there may be anywhere.
pub(super) fn disarm() {
    with_guard(|guard| {
        if let Some(Err(error)) = guard.map(|guard| guard.disarm()) {
            say!("an image elsewhere may still wake: {error}");
        }
    });
}
