//! Flash, for the vault's driver.

use poorwill_arch::Mmio;
use poorwill_devicetree::{Machine, VaultBank};
use poorwill_drivers::FlashBank;

/// The bank that the tree names for the vault, or that may hold it.
///
/// # Safety
///
/// `machine` describes this machine.
pub(super) unsafe fn vault_bank(machine: &Machine) -> Option<(FlashBank<Mmio>, VaultBank)> {
    let flash = machine.flash.as_ref()?;
    let place = flash.vault_bank()?;
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(place.bank.start) };
    let bank = FlashBank::new(registers, place.bank.length(), flash.width as u8);
    Some((bank, place))
}
