//! What the machine's vault says of cuts.

use poorwill_vault::{CutVault, Key};

use super::proof::Proof;
use super::reason::CutReason;
use crate::vault_state::VaultFault;
use crate::vault_state::VaultState;

/// A machine that knows what proves its next cut.
pub trait Prover {
    /// Runs `job` with what the machine has for a vault.
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R;

    /// A new key for the vault, which is told of on the console.
    fn new_key(&self) -> Key;

    /// Keeps what the next cut is proven by; or knows why none is to be taken.
    fn keep(&self, proof: Result<Proof, VaultFault>);
}

/// Which cut may be gone on with, by the machine's vault.
#[derive(Debug)]
pub enum Guard {
    /// There is no vault: the record alone tells.
    Absent(Proof),
    /// There is one, and it does not tell.
    Broken,
    /// The one cut with that number, if this proves it; `None`: there is no key.
    Latest(u64, Option<Proof>),
}

impl Guard {
    /// As where there is no vault.
    pub(super) const fn none() -> Self {
        Guard::Absent(Proof::Checksums)
    }

    /// As the vault is at a start.
    #[must_use]
    pub fn at_start(state: VaultState<'_, dyn CutVault + '_>) -> Self {
        match state {
            VaultState::Absent => Guard::none(),
            VaultState::Broken(_) => Guard::Broken,
            VaultState::Open(vault) => {
                let number = vault.cut();
                Guard::Latest(number, vault.key().map(|key| Proof::tags(key, number)))
            }
        }
    }

    /// What proves the cut with that number, whose digests are tags or are not.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: nothing does.
    pub(super) fn proof_of(&self, sequence: u64, is_tagged: bool) -> Result<&Proof, CutReason> {
        match self {
            Guard::Absent(_) if is_tagged => Err(CutReason::NoVault),
            Guard::Absent(proof) => Ok(proof),
            Guard::Broken => Err(CutReason::Vault),
            Guard::Latest(..) if !is_tagged => Err(CutReason::Forged),
            Guard::Latest(latest, _) if sequence < *latest => Err(CutReason::Old),
            Guard::Latest(latest, Some(proof)) if sequence == *latest => Ok(proof),
            Guard::Latest(..) => Err(CutReason::Forged),
        }
    }
}

/// Lets no cut up to now be gone on with any more, and gives what the next one is proven by;
/// `new_key` is for a vault without a key.
///
/// # Errors
///
/// [`VaultFault`]: there is a vault, and it cannot be used. Nothing is to be cut.
pub(super) fn advance(
    state: VaultState<'_, dyn CutVault + '_>,
    new_key: impl FnOnce() -> Key,
) -> Result<Proof, VaultFault> {
    let vault = match state {
        VaultState::Absent => return Ok(Proof::Checksums),
        VaultState::Broken(fault) => return Err(fault),
        VaultState::Open(vault) => vault,
    };
    // First: nothing that comes later may leave an old one behind.
    let number = vault.next_cut()?;
    if vault.key().is_none() {
        vault.install_key(new_key())?;
    }
    let key = vault.key().ok_or(poorwill_vault::VaultError::Damaged)?;
    Ok(Proof::tags(key, number))
}
