//! The proof of the next cut, while the machine runs. On a machine with a vault it is a key,
//! which must not be in memory once the power is off.

use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{CutReason, Proof};
use poorwill_sleep::{Event, VaultFault, VaultState};
use poorwill_vault::{CutVault, Key};
use spin::RwLock;

use super::STATE;
use crate::entry::{self, stack};
use crate::platform::console::say;
use crate::platform::{entropy, vault};

/// The proof of the next cut, or why the vault gives none. `None` before a start has decided it,
/// and once the key is forgotten.
pub(super) type NextProof = RwLock<Option<Result<Proof, VaultFault>>>;

/// Bytes at the lower end of a hart's stack in the record, where `job` uses the key. The hart
/// itself is on the upper part.
const SCRATCH_BYTES: usize = 8 << 10;

/// Tries to take the proof from harts that use it.
const PATIENCE: u32 = 100_000;

/// Keeps the proof of the next cut.
pub(super) fn keep(proof: Result<Proof, VaultFault>) {
    *STATE.proof.write() = Some(proof);
}

/// Runs `job` with the state of the vault.
pub(super) fn with_vault<R>(job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R {
    let mut vault = vault::lend();
    job(match vault.open() {
        VaultState::Absent => VaultState::Absent,
        VaultState::Broken(fault) => VaultState::Broken(fault),
        VaultState::Open(vault) => VaultState::Open(vault),
    })
}

/// A new key for the vault.
pub(super) fn new() -> Key {
    let key = Key::new(&entropy::key());
    say!("{}", Event::NewKey);
    key
}

/// The number of the next cut, where a vault gives it.
pub(super) fn number() -> Option<u64> {
    match &*STATE.proof.read() {
        Some(Ok(proof)) => proof.number(),
        _ => None,
    }
}

/// Whether a cut can be proven.
///
/// # Errors
///
/// [`VaultFault`].
pub(super) fn is_kept() -> Result<(), VaultFault> {
    match &*STATE.proof.read() {
        Some(Err(fault)) => Err(*fault),
        _ => Ok(()),
    }
}

/// Runs `job` with the proof of the next cut, for a hart on `own`, its stack in the record.
/// Clears the memory in which `job` may have left parts of a key.
///
/// # Errors
///
/// [`CutReason::Vault`]: the vault has failed since the line was armed.
pub(super) fn with<R>(own: PhysRange, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
    let proof = STATE.proof.read();
    let proof = match &*proof {
        Some(Ok(proof)) => proof,
        Some(Err(_)) => return Err(CutReason::Vault),
        // Another hart has forgotten the key, and switches the machine off.
        None => {
            drop(proof);
            entry::park()
        }
    };
    if let Proof::Checksums = proof {
        return Ok(job(proof));
    }
    let base = own.start as usize;
    let top = base + SCRATCH_BYTES;
    let here = (&raw const proof).addr();
    assert!(
        (top..own.end as usize).contains(&here),
        "the hart is on the upper part of its stack"
    );
    // SAFETY: no code uses the part below.
    let result = unsafe { stack::on(top, || job(proof)) };
    let scratch = core::ptr::with_exposed_provenance_mut::<u8>(base);
    // SAFETY: likewise; the job is done.
    unsafe { scratch.write_bytes(0, SCRATCH_BYTES) };
    Ok(result)
}

/// Forgets the proof. Memory holds no key once the calling hart's cache is written back.
///
/// # Errors
///
/// [`CutReason::KeyLeft`]: another hart uses the proof all the time.
pub(super) fn forget() -> Result<(), CutReason> {
    for _ in 0..PATIENCE {
        if let Some(mut proof) = STATE.proof.try_write() {
            // Dropping a key wipes it.
            *proof = None;
            return Ok(());
        }
        core::hint::spin_loop();
    }
    Err(CutReason::KeyLeft)
}
