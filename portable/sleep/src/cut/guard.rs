//! The proofs of cuts, with the machine's vault or without one.

use poorwill_vault::{CutVault, Key};

use super::proof::Proof;
use super::reason::CutReason;
use crate::vault_state::VaultFault;
use crate::vault_state::VaultState;

/// A machine that stores the proof of its next cut.
pub trait Prover {
    /// Runs `job` with the state of the vault.
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R;

    /// Makes a new key for the vault, and reports it on the console.
    fn new_key(&self) -> Key;

    /// Stores the proof of the next cut, or the fault because of which there is no proof.
    fn keep(&self, proof: Result<Proof, VaultFault>);
}

/// The cut that may be resumed, according to the machine's vault.
#[derive(Debug)]
pub enum Guard {
    /// There is no vault: the record alone decides.
    Absent(Proof),
    /// There is a vault, but it cannot be read.
    Broken,
    /// Only the cut with this number, if this proof confirms it; `None`: the vault has no key.
    Latest(u64, Option<Proof>),
}

impl Guard {
    /// The guard of a machine without a vault.
    pub(super) const fn none() -> Self {
        Guard::Absent(Proof::Checksums)
    }

    /// The guard for the state of the vault at a start.
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

    /// The proof of the cut with this number. `is_tagged`: its digests are tags.
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

/// Makes all cuts up to now invalid, and returns the proof of the next one. `new_key` makes a key
/// for a vault without one.
///
/// # Errors
///
/// [`VaultFault`]: the vault exists, but cannot be used. The machine must not be cut.
pub(super) fn advance(
    state: VaultState<'_, dyn CutVault + '_>,
    new_key: impl FnOnce() -> Key,
) -> Result<Proof, VaultFault> {
    let vault = match state {
        VaultState::Absent => return Ok(Proof::Checksums),
        VaultState::Broken(fault) => return Err(fault),
        VaultState::Open(vault) => vault,
    };
    // This comes first: after a later failure, the vault must not have an old number.
    let number = vault.next_cut()?;
    if vault.key().is_none() {
        vault.install_key(new_key())?;
    }
    let key = vault.key().ok_or(poorwill_vault::VaultError::Damaged)?;
    Ok(Proof::tags(key, number))
}
