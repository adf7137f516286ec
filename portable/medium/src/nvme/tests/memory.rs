//! Memory as a device reaches it, by addresses.

use crate::nvme::fake::DeviceMemory;

/// The memory of this process.
#[derive(Debug)]
pub(super) struct Exposed;

impl DeviceMemory for Exposed {
    fn load(&self, address: u64) -> u64 {
        let pointer = std::ptr::with_exposed_provenance::<u64>(address as usize);
        // SAFETY: the driver gives addresses of memory that it owns or was lent,
        // exposed by `physical_address` or by the maker of `OsMemory`.
        unsafe { pointer.read_volatile() }
    }

    fn store(&self, address: u64, value: u64) {
        let pointer = std::ptr::with_exposed_provenance_mut::<u64>(address as usize);
        // SAFETY: the driver gives addresses of memory that it owns or was lent, and that
        // a device may write.
        unsafe { pointer.write_volatile(value) }
    }
}
