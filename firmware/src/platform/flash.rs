//! Flash: where the bank is that only machine mode may touch.

use poorwill_devicetree::Machine;
use poorwill_memory::PhysRange;

use super::mmio::Mmio;

/// Bytes at a bank's end that are looked at: four of the largest blocks in use.
const PROBED_BYTES: u64 = 4 * (256 << 10);

/// A word in so many bytes is looked at. Flash that holds anything, or is
/// erased, shows it at any stride; this one costs no time to speak of.
const STRIDE: u64 = 64;

/// The bank that is the vault's: the last one of the machine's flash, if there
/// is something behind it. QEMU has both banks on every `virt` machine; one
/// without a file forgets with the power, and reads as zeros.
///
/// # Safety
///
/// `machine` describes this machine, and its flash can be read (it is not in
/// the middle of a command).
pub(super) unsafe fn find_bank(machine: &Machine) -> Option<PhysRange> {
    let bank = *machine.flash.as_ref()?.banks.last()?;
    let probed = bank.length().min(PROBED_BYTES);
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(bank.end - probed) };
    (0..probed / STRIDE)
        .any(|place| registers.read32((place * STRIDE) as usize) != 0)
        .then_some(bank)
}

/// The bank that is the vault's, closed to the OS and out of its sight.
pub(crate) fn bank() -> Option<PhysRange> {
    super::platform().vault
}
