//! What memory holds when the firmware starts.

use poorwill_devicetree::Machine;
use poorwill_memory::{PAGE_BYTES, PhysRange};

/// Left in memory at every start. It is there again at a reset, and where RAM
/// outlives the power (a file behind QEMU's memory).
const MARK: u64 = u64::from_le_bytes(*b"started\0");

/// Whether OS memory holds nothing but zeros and what was loaded for this
/// start: the machine promises so for the moment when its power comes on, and
/// this is that moment. Asked once, at the start.
///
/// # Safety
///
/// `firmware` is the firmware's memory, whose last page nothing else uses
/// (firmware.ld), and only one hart runs.
pub(super) unsafe fn is_clear(machine: &Machine, firmware: PhysRange) -> bool {
    let address = usize::try_from(firmware.end - PAGE_BYTES).expect("an address");
    let mark = core::ptr::with_exposed_provenance_mut::<u64>(address);
    // SAFETY: as the caller says; a page is aligned.
    let found = unsafe {
        let found = mark.read_volatile();
        mark.write_volatile(MARK);
        found
    };
    machine.starts_clear && found == 0
}
