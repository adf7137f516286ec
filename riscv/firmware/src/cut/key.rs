//! The proof of the next cut. On a machine with a vault it contains a key, which must not stay in
//! memory when the power is off.

use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{CutReason, Proof};
use poorwill_sleep::{Event, VaultFault, VaultState};
use poorwill_vault::{CutVault, Key};
use spin::RwLock;

use crate::entry::{self, stack};
use crate::platform::console::say;
use crate::platform::{entropy, vault};

/// The proof of the next cut, or the vault's fault. `None` until a start has made it, and after the
/// key is cleared.
static PROOF: RwLock<Option<Result<Proof, VaultFault>>> = RwLock::new(None);

/// Bytes at the lower end of a hart's stack in the record, where `job` uses the key. The hart
/// itself is on the upper part.
const SCRATCH_BYTES: usize = 8 << 10;

/// Number of attempts to lock the proof while other harts use it.
const PATIENCE: u32 = 100_000;

/// Sets the proof of the next cut.
pub(super) fn keep(proof: Result<Proof, VaultFault>) {
    *PROOF.write() = Some(proof);
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

/// Makes a new key for the vault.
pub(super) fn new() -> Key {
    let key = Key::new(&entropy::key());
    say!("{}", Event::NewKey);
    key
}

/// The number of the next cut, if a vault counts cuts.
pub(super) fn number() -> Option<u64> {
    match &*PROOF.read() {
        Some(Ok(proof)) => proof.number(),
        _ => None,
    }
}

/// Checks that a cut can be proven.
///
/// # Errors
///
/// [`VaultFault`].
pub(super) fn is_kept() -> Result<(), VaultFault> {
    match &*PROOF.read() {
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
    let proof = PROOF.read();
    let proof = match &*proof {
        Some(Ok(proof)) => proof,
        Some(Err(_)) => return Err(CutReason::Vault),
        // Another hart has cleared the key, and switches the machine off.
        None => {
            drop(proof);
            entry::halt()
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
    // SAFETY: no code uses this memory, and the job is done.
    unsafe { scratch.write_bytes(0, SCRATCH_BYTES) };
    Ok(result)
}

/// Clears the proof. After this and a write-back of the calling hart's cache, no memory holds the
/// key.
///
/// # Errors
///
/// [`CutReason::KeyLeft`]: another hart still uses the proof after the last attempt.
pub(super) fn forget() -> Result<(), CutReason> {
    for _ in 0..PATIENCE {
        if let Some(mut proof) = PROOF.try_write() {
            // Dropping a key wipes it.
            *proof = None;
            return Ok(());
        }
        core::hint::spin_loop();
    }
    Err(CutReason::KeyLeft)
}
