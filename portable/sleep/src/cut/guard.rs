//! Cuts, by the machine's vault.

use poorwill_vault::{CutVault, Key};

use super::proof::Proof;
use super::reason::CutReason;
use crate::vault_state::VaultFault;
use crate::vault_state::VaultState;

/// A machine that has the proof of its next cut.
pub trait Prover {
    /// Runs `job` with the state of the vault.
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R;

    /// Makes a new key for the vault, and says so on the console.
    fn new_key(&self) -> Key;

    /// Keeps the proof of the next cut, or the reason against one.
    fn keep(&self, proof: Result<Proof, VaultFault>);
}

/// Which cut may be resumed, by the machine's vault.
#[derive(Debug)]
pub enum Guard {
    /// There is no vault: the record alone tells.
    Absent(Proof),
    /// There is one, and it cannot be read.
    Broken,
    /// Only the cut with that number, if this proves it; `None`: there is no key.
    Latest(u64, Option<Proof>),
}

impl Guard {
    /// The guard of a machine without a vault.
    pub(super) const fn none() -> Self {
        Guard::Absent(Proof::Checksums)
    }

    /// The guard by the state of the vault at a start.
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

    /// The proof of the cut with that number, whose digests are tags or not.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: there is no proof.
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

/// Ends all cuts up to now: no such cut can be resumed. Returns the proof of the next one.
/// `new_key` is for a vault without a key.
///
/// # Errors
///
/// [`VaultFault`]: there is a vault, and it cannot be used. The machine is not to be cut.
pub(super) fn advance(
    state: VaultState<'_, dyn CutVault + '_>,
    new_key: impl FnOnce() -> Key,
) -> Result<Proof, VaultFault> {
    let vault = match state {
        VaultState::Absent => return Ok(Proof::Checksums),
        VaultState::Broken(fault) => return Err(fault),
        VaultState::Open(vault) => vault,
    };
    // First: a later failure must not leave an old number.
    let number = vault.next_cut()?;
    if vault.key().is_none() {
        vault.install_key(new_key())?;
    }
    let key = vault.key().ok_or(poorwill_vault::VaultError::Damaged)?;
    Ok(Proof::tags(key, number))
}
