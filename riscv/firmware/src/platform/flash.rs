//! Flash, as the vault's driver reaches it.

use core::ops::Range;

use poorwill_arch::Mmio;
use poorwill_devicetree::Machine;
use poorwill_drivers::FlashBank;
use poorwill_memory::PhysRange;

/// A bank of flash that may hold the vault.
pub(super) struct VaultBank {
    /// Its registers.
    pub(super) registers: FlashBank<Mmio>,
    /// Where it lies.
    pub(super) place: PhysRange,
    /// The partition of it that is the vault's, in bytes from its start.
    pub(super) partition: Option<Range<u64>>,
}

/// The bank that is said to have the vault, or may.
///
/// # Safety
///
/// `machine` describes this machine.
pub(super) unsafe fn vault_bank(machine: &Machine) -> Option<VaultBank> {
    let flash = machine.flash.as_ref()?;
    let (place, partition) = flash.vault_bank()?;
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(place.start) };
    Some(VaultBank {
        registers: FlashBank::new(registers, place.length(), flash.width as u8),
        place,
        partition,
    })
}
