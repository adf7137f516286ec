//! Flash, as the vault's driver reaches it.

use poorwill_arch::Mmio;
use poorwill_devicetree::Machine;
use poorwill_drivers::FlashBank;
use poorwill_memory::PhysRange;

/// The last bank of the machine's flash, and where it lies: the first ones hold
/// code, where there is any.
///
/// # Safety
///
/// `machine` describes this machine.
pub(super) unsafe fn last_bank(machine: &Machine) -> Option<(FlashBank<Mmio>, PhysRange)> {
    let flash = machine.flash.as_ref()?;
    let place = *flash.banks.last()?;
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(place.start) };
    let bank = FlashBank::new(registers, place.length(), flash.width as u8);
    Some((bank, place))
}
