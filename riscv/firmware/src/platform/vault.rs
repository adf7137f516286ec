//! The machine's vault: the flash that holds its sealing key and its count of
//! sleeps.

use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::Machine;
use poorwill_drivers::FlashBank;
use poorwill_medium::cfi::{self, Cfi, Part, Registers};
use poorwill_memory::PhysRange;
use poorwill_sleep::VaultFault;
use poorwill_vault::{BLOCKS, VaultError, range_in_bank};
use spin::Mutex;

use super::flash;

/// The vault.
pub(crate) type Vault = poorwill_vault::Vault<Part<FlashBank<Mmio>, Time>>;

/// What the machine has for a vault.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, and no heap to put it on"
)]
#[derive(Debug)]
pub(crate) enum State {
    /// No flash for one.
    Absent,
    /// It is in use.
    Open(Vault),
    /// It is there, and cannot be used.
    Broken(VaultFault),
}

static VAULT: Mutex<State> = Mutex::new(State::Absent);

/// Runs `job` with the vault.
pub(crate) fn with<R>(job: impl FnOnce(&mut State) -> R) -> R {
    job(&mut VAULT.lock())
}

/// Looks for the vault, at power-on; the bank that is its from now on. A flash
/// that holds something else, anywhere in it, or that nothing stands behind, is left
/// alone.
///
/// # Safety
///
/// `machine` describes this machine, and nobody uses its flash.
pub(super) unsafe fn find(machine: &Machine, time: Time) -> Option<PhysRange> {
    // SAFETY: passed on to the caller.
    let (registers, bank) = unsafe { flash::last_bank(machine)? };
    let state = match open(registers, time) {
        Ok(Some(vault)) => State::Open(vault),
        Ok(None) => return None,
        Err(error) => State::Broken(error),
    };
    *VAULT.lock() = state;
    Some(bank)
}

fn open(registers: FlashBank<Mmio>, time: Time) -> Result<Option<Vault>, VaultFault> {
    if is_absent(&registers) {
        return Ok(None);
    }
    let bank = Cfi::start(registers, time)?;
    let last = bank.geometry().bytes - 1;
    let block = bank.geometry().block_at(last).map_or(0, |(_, bytes)| bytes);
    let Some(range) = range_in_bank(bank.geometry().bytes, block) else {
        return Ok(None);
    };
    let length = (range.end - range.start) as u32;
    match Vault::open_shared(Part::new(bank, range)?, 0..length, Part::is_rest_erased) {
        Ok(vault) => Ok(Some(vault)),
        Err(VaultError::Foreign | VaultError::NotBacked) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the flash reads as zeros where a vault would begin a block. QEMU has
/// both banks on every `virt` machine; one without a file behaves so. A glance,
/// as most machines have none, and every start pays for it.
fn is_absent(registers: &FlashBank<Mmio>) -> bool {
    // A bank that an OS left in the middle of a command may read as zeros.
    reads_as_zeros(registers) && {
        cfi::read_array(registers);
        reads_as_zeros(registers)
    }
}

fn reads_as_zeros(registers: &FlashBank<Mmio>) -> bool {
    /// The usual length of a block.
    const BLOCK: u64 = 256 << 10;
    let length = registers.length();
    (1..=u64::from(BLOCKS))
        .filter_map(|block| length.checked_sub(block * BLOCK))
        .all(|offset| registers.read(offset) == 0)
}
