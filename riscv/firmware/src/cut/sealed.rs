//! Memory that is still sealed because the power failed during a save. The record of the cut
//! describes it, and Go opens it.

use poorwill_image::{NotOpened, SealedMemory, SealingKey};
use poorwill_sleep::VaultState;
use spin::Mutex;
use zerocopy::FromZeros;

use crate::entry::stack;
use crate::hart::domain_state::DomainStopped;
use crate::hart::memory::open_sealed;
use crate::hart::this_hart;
use crate::platform::console::say;
use crate::platform::vault;

/// The state after a power failure during a save.
struct GivenUp {
    /// A power failure has ended a save, so the OS's call returns an error.
    is_refused: bool,
    is_sealed: bool,
    /// Zeros unless `is_sealed`. A move of `None` would copy stale stack bytes, which may be parts
    /// of a key.
    sealed: Option<SealedMemory>,
}

static GIVEN_UP: Mutex<GivenUp> = Mutex::new(GivenUp {
    is_refused: false,
    is_sealed: false,
    sealed: None,
});

/// Notes that a power failure has ended a save. `sealed`: the memory that the save has left sealed.
pub(crate) fn leave_sealed(sealed: Option<SealedMemory>) {
    GIVEN_UP.lock().is_refused = true;
    remember(sealed);
}

/// Returns whether a power failure has ended a save.
pub(super) fn is_refused() -> bool {
    GIVEN_UP.lock().is_refused
}

/// The memory that is still sealed.
pub(super) fn left() -> Option<SealedMemory> {
    let given_up = GIVEN_UP.lock();
    given_up.is_sealed.then_some(given_up.sealed).flatten()
}

/// Notes the sealed memory from the record of a cut.
pub(super) fn remember(sealed: Option<SealedMemory>) {
    let mut given_up = GIVEN_UP.lock();
    given_up.is_sealed = sealed.is_some();
    given_up.sealed = Some(sealed.unwrap_or_else(SealedMemory::new_zeroed));
}

/// Returns whether the vault has the key for the sealed memory.
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

/// Opens the sealed memory, on the hart that had asked for the save. No other hart runs the OS. If
/// the power fails again during this, [the rest](left) stays sealed.
pub(super) fn open() {
    let Some(sealed) = left() else { return };
    let stopped = match DomainStopped::park(this_hart().domain(), || false) {
        Ok(stopped) => stopped,
        Err(error) => panic!("memory is still sealed, and {error}"),
    };
    // The closure returns no value: a move would copy stale stack bytes, which may be parts of
    // the key.
    stack::deep(|| with_key(|key| open_with(key, sealed, &stopped)));
    stopped.unpark();
    if left().is_none() {
        say!("memory that a save had sealed is open again");
    }
}

fn open_with(key: Option<&SealingKey>, sealed: SealedMemory, stopped: &DomainStopped<'_>) {
    let key = key.expect("the check of the record found the key");
    match open_sealed(sealed, key, stopped) {
        Ok(()) => remember(None),
        Err(NotOpened::PowerFails(left)) => remember(Some(left)),
        Err(error @ NotOpened::Map(_)) => panic!("memory stays sealed: {error}"),
    }
}
