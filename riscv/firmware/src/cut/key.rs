//! What proves the next cut, while the machine runs: where it has a vault, a key, and
//! nothing of it may be left in memory when the power is gone.

use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{CutReason, Proof};
use poorwill_sleep::{Event, VaultFault, VaultState};
use poorwill_vault::{CutVault, Key};
use spin::{Once, RwLock};

use crate::entry::{self, stack};
use crate::platform::console::say;
use crate::platform::{entropy, vault};

/// `None`: nothing is to be cut, or the key is forgotten.
static PROOF: RwLock<Option<Proof>> = RwLock::new(None);

/// Why the vault gives none.
static FAULT: Once<VaultFault> = Once::new();

/// Bytes at the lower end of a hart's stack in the record: there the key is used. The hart
/// is on the upper part meanwhile.
const SCRATCH_BYTES: usize = 8 << 10;

/// How often a reader is waited for that should not be there.
const PATIENCE: u32 = 100_000;

/// Keeps what proves the next cut.
pub(super) fn keep(proof: Result<Proof, VaultFault>) {
    if let Err(fault) = &proof {
        FAULT.call_once(|| *fault);
    }
    *PROOF.write() = proof.ok();
}

/// Runs `job` with what the machine has for a vault.
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
    PROOF.read().as_ref().and_then(Proof::number)
}

/// Whether there is something to prove a cut by.
///
/// # Errors
///
/// Why not.
pub(super) fn is_kept() -> Result<(), VaultFault> {
    FAULT.get().map_or(Ok(()), |fault| Err(*fault))
}

/// Runs `job` with it, for a hart that stops, and is on that stack, its own in the record. Of
/// a key nothing that `job` leaves behind stays in memory.
///
/// # Errors
///
/// [`CutReason::Vault`]: it has got lost since a cut was armed.
pub(super) fn with<R>(own: PhysRange, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
    let proof = PROOF.read();
    let Some(proof) = proof.as_ref() else {
        drop(proof);
        if FAULT.get().is_some() {
            return Err(CutReason::Vault);
        }
        // Another hart switches the machine off: here is nothing to do any more.
        entry::park()
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
    // SAFETY: the part below is nobody's.
    let result = unsafe { stack::on(top, || job(proof)) };
    let scratch = core::ptr::with_exposed_provenance_mut::<u8>(base);
    // SAFETY: likewise; the job is done.
    unsafe { scratch.write_bytes(0, SCRATCH_BYTES) };
    Ok(result)
}

/// Forgets it. What is stored of that is in memory once the calling hart's cache is written
/// back.
pub(super) fn forget() {
    for _ in 0..PATIENCE {
        if let Some(mut proof) = PROOF.try_write() {
            // A key that is dropped is wiped.
            *proof = None;
            return;
        }
        core::hint::spin_loop();
    }
}
