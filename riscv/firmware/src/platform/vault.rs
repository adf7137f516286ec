//! The machine's vault: flash with its sealing key and its count of sleeps.

use core::ops::Range;

use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{Machine, VaultBank};
use poorwill_drivers::FlashBank;
use poorwill_medium::cfi::{self, Cfi, Part, Registers};
use poorwill_memory::PhysRange;
use poorwill_sleep::{LentVault, VaultFault, VaultState};
use poorwill_vault::{VaultError, block_starts, range_in_bank, vault_bytes};
use spin::{Mutex, MutexGuard, Once};

use super::flash;
use super::wait_clock::WaitClock;
use crate::entry::stack;

pub(crate) type Vault = poorwill_vault::Vault<Part<FlashBank<Mmio>, WaitClock<Time>>>;

/// State of the machine's vault.
#[allow(
    clippy::large_enum_variant,
    reason = "there is only one, and no heap to put it on"
)]
#[derive(Debug)]
pub(crate) enum State {
    /// There is no flash for a vault.
    Absent,
    Open(Vault),
    /// The vault exists but cannot be used.
    Broken(VaultFault),
}

/// The vault, and its bank if the OS has a part of it, too.
struct Lent {
    vault: Mutex<State>,
    shared: Once<FlashBank<Mmio>>,
}

static VAULT: Lent = Lent {
    vault: Mutex::new(State::Absent),
    shared: Once::new(),
};

/// The lent vault.
pub(crate) struct Access {
    vault: MutexGuard<'static, State>,
    /// The error if the vault's key cannot be read.
    broken: Option<VaultError>,
}

/// Lends the vault, while no OS runs. An OS with a part of the bank may have left a command
/// unfinished there. If memory outlives the power, the key is in memory only until the vault is
/// given back.
pub(crate) fn lend() -> Access {
    if let Some(bank) = VAULT.shared.get() {
        cfi::read_array(bank);
    }
    let mut vault = VAULT.vault.lock();
    let broken = match &mut *vault {
        State::Open(vault) if stack::leaves_nothing() => vault.recall_key().err(),
        _ => None,
    };
    Access { vault, broken }
}

impl Drop for Access {
    fn drop(&mut self) {
        if let State::Open(vault) = &mut *self.vault
            && stack::leaves_nothing()
        {
            vault.forget_key();
        }
    }
}

impl Access {
    /// The vault, its absence, or its fault.
    pub(crate) fn open(&mut self) -> VaultState<'_, Vault> {
        match (&mut *self.vault, self.broken) {
            (State::Absent, _) => VaultState::Absent,
            (State::Broken(fault), _) => VaultState::Broken(*fault),
            (State::Open(_), Some(error)) => VaultState::Broken(error.into()),
            (State::Open(vault), None) => VaultState::Open(vault),
        }
    }
}

impl LentVault for Access {
    fn state(&mut self) -> VaultState<'_> {
        match self.open() {
            VaultState::Absent => VaultState::Absent,
            VaultState::Broken(fault) => VaultState::Broken(fault),
            VaultState::Open(vault) => VaultState::Open(vault),
        }
    }
}

/// Looks for the vault at power-on. Returns its part of flash: its partition, or a bank. A bank
/// without the vault's partition is left alone if it holds anything else, or if writes to it do not
/// persist.
///
/// # Safety
///
/// `machine` describes this machine, and nothing else uses its flash.
pub(crate) unsafe fn find(machine: &Machine, time: Time) -> Option<PhysRange> {
    // SAFETY: passed on to the caller.
    let (registers, VaultBank { own, partition, .. }) = unsafe { flash::vault_bank(machine)? };
    if partition.is_some() {
        VAULT.shared.call_once(|| registers);
    }
    let memory_lasts = machine.power_fail.is_some();
    let opened = match memory_lasts {
        true => stack::apart(|| {
            let mut opened = open(registers, partition, time);
            if let Ok(Some(vault)) = &mut opened {
                vault.forget_key();
            }
            opened
        }),
        false => open(registers, partition, time),
    };
    let state = match opened {
        Ok(Some(vault)) => {
            if memory_lasts {
                stack::leave_nothing();
            }
            State::Open(vault)
        }
        Ok(None) => return None,
        Err(error) => State::Broken(error),
    };
    *VAULT.vault.lock() = state;
    Some(own)
}

fn open(
    registers: FlashBank<Mmio>,
    partition: Option<Range<u64>>,
    time: Time,
) -> Result<Option<Vault>, VaultFault> {
    let end = partition
        .as_ref()
        .map_or(registers.length(), |part| part.end);
    if cfi::reads_as_zeros(&registers, block_starts(end)) {
        return Ok(None);
    }
    let bank = Cfi::start(registers, WaitClock(time))?;
    let is_shared = partition.is_some();
    let last = bank.geometry().bytes - 1;
    let block = bank.geometry().block_at(last).map_or(0, |(_, bytes)| bytes);
    let Some(range) = partition.or_else(|| range_in_bank(bank.geometry().bytes, block)) else {
        return Ok(None);
    };
    let length = vault_bytes(range.end - range.start, block) as u32;
    let is_free = |part: &_| is_shared || Part::is_rest_erased(part);
    match Vault::open_shared(Part::new(bank, range)?, 0..length, is_free) {
        Ok(vault) => Ok(Some(vault)),
        Err(VaultError::NotBacked) => Ok(None),
        Err(VaultError::Foreign) if !is_shared => Ok(None),
        Err(error) => Err(error.into()),
    }
}
