//! What a save that the power did not let end has left sealed in memory: it is so in the
//! record, and is opened once the machine goes on.

use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_image::{NotOpened, SealedMemory, SealingKey};
use poorwill_sleep::VaultState;
use spin::Mutex;
use zerocopy::FromZeros;

use crate::entry::stack;
use crate::hart::{self, OthersStopped};
use crate::platform::console::say;
use crate::platform::vault;
use crate::sleep_memory::open_sealed;

/// Whether something is sealed, and what: all of it is set, so that nothing of a key that was
/// on a stack goes here as it is moved.
static LEFT: Mutex<(bool, Option<SealedMemory>)> = Mutex::new((false, None));

/// A save was given up, of which the OS has asked.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// A save was given up, and has left that sealed.
pub(crate) fn leave_sealed(sealed: Option<SealedMemory>) {
    REFUSED.store(true, Ordering::Relaxed);
    remember(sealed);
}

/// Whether a save was given up.
pub(super) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// What is sealed.
pub(super) fn left() -> Option<SealedMemory> {
    let left = LEFT.lock();
    left.0.then_some(left.1).flatten()
}

/// Likewise, as the record of a cut has it.
pub(super) fn remember(sealed: Option<SealedMemory>) {
    let is_left = sealed.is_some();
    *LEFT.lock() = (
        is_left,
        Some(sealed.unwrap_or_else(SealedMemory::new_zeroed)),
    );
}

/// Whether the key is there that opens it.
pub(super) fn has_key() -> bool {
    with_key(|key| key.is_some())
}

fn with_key<R>(job: impl FnOnce(Option<&SealingKey>) -> R) -> R {
    let mut vault = vault::lend();
    let key = match vault.open() {
        VaultState::Open(vault) => vault.key(),
        VaultState::Absent | VaultState::Broken(_) => None,
    };
    job(key.map(|key| SealingKey::new(*key.bytes())).as_ref())
}

/// Opens it, on the hart that has called for the save, the only one that runs. If the power
/// fails again meanwhile, what is left is [left](left) still.
pub(super) fn open() {
    let Some(sealed) = left() else { return };
    let stopped = match hart::others_stopped() {
        Ok(stopped) => stopped,
        Err(hart) => panic!("hart {} runs, and memory is sealed", hart.id()),
    };
    // What comes back from there is nothing: a value that is moved takes with it what was in
    // its place on the stack, which may be a part of the key.
    stack::deep(|| with_key(|key| open_with(key, sealed, &stopped)));
    if left().is_none() {
        say!("memory that a save had sealed is open again");
    }
}

fn open_with(key: Option<&SealingKey>, sealed: SealedMemory, stopped: &OthersStopped) {
    let key = key.expect("the key was there as the record was checked");
    match open_sealed(sealed, key, stopped) {
        Ok(()) => remember(None),
        Err(NotOpened::PowerFails(left)) => remember(Some(left)),
        Err(error @ NotOpened::Map(_)) => panic!("memory stays sealed: {error}"),
    }
}
