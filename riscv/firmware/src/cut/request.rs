//! A sleep by a cut. The hart whose OS asks for it coordinates. The OS has stopped all other harts;
//! they write their caches back, and keep waiting for a start.

use core::cell::Cell;

use poorwill_arch::uninterrupted;
use poorwill_memory::EntryPoint;
use poorwill_sleep::cut::{self, CutCommitted, CutReason, NoCut, Proof, Prover};
use poorwill_sleep::{VaultFault, VaultState};
use poorwill_vault::{CutVault, Key};
use spin::MutexGuard;

use super::key;
use super::record::record;
use super::stop::{Request, STATE, Stopping};
use crate::entry::stack;
use crate::platform::power_fail;

/// Cuts the machine for the calling hart, which is on the deep stack, while all others are stopped.
/// The OS will continue at `vector`. `began`: time of the OS's call in ticks.
///
/// # Errors
///
/// [`NoCut`]: the machine has not changed.
pub(crate) fn request(vector: EntryPoint, began: u64) -> Result<CutCommitted, NoCut> {
    // Interrupts are off: a refused request lets the hart stop for the line later, and a committed
    // cut serves the line, too.
    uninterrupted(|| {
        // The hart with the lock stops the machine for the line, and waits for this hart.
        let coordinator = STATE.coordinator.try_lock().ok_or(NoCut::PowerFails)?;
        if power_fail::noticed() {
            return Err(NoCut::PowerFails);
        }
        let committed = request_alone(vector, began)?;
        MutexGuard::leak(coordinator);
        Ok(committed)
    })
}

fn request_alone(vector: EntryPoint, began: u64) -> Result<CutCommitted, CutReason> {
    assert!(stack::is_on_upper_deep(), "a sleep runs on the deep stack");
    let record = record().expect("a machine that can be cut has a record");
    let request = Request {
        vector,
        began,
        quieted: Cell::new(None),
    };
    let machine = Stopping::asked(record, request);
    record.on_stack(|| cut::request(&machine))
}

impl Prover for Stopping<'_> {
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R {
        match stack::leaves_nothing() {
            // SAFETY: the hart was on that stack before it switched to its stack in the record.
            true => unsafe { stack::apart_from_above(|| key::with_vault(job)) },
            false => key::with_vault(job),
        }
    }

    fn new_key(&self) -> Key {
        key::new()
    }

    fn keep(&self, proof: Result<Proof, VaultFault>) {
        key::keep(proof);
    }
}
