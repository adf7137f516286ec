//! Access to the OS's memory for the handlers of its SBI calls and traps.

use poorwill_drivers::mediated::CallerMemory;
use poorwill_hart::emulation::PhysicalMemory;

use crate::fence;

/// The OS's memory. Each access is checked first.
#[derive(Clone, Copy, Debug)]
pub struct ClaimedMemory<F, C> {
    /// Returns whether the OS owns this number of bytes at a physical address.
    owns: F,
    /// Returns whether the OS may execute at a physical address.
    executes: C,
}

impl<F: Fn(u64, u64) -> bool, C: Fn(u64) -> bool> ClaimedMemory<F, C> {
    /// `owns` returns whether a number of bytes at an address is the OS's memory. `executes`
    /// returns whether the OS may execute at an address, also in flash.
    ///
    /// # Safety
    ///
    /// `owns` accepts only memory that holds no Rust object. Reads have no side effects where
    /// `executes` accepts the address.
    pub unsafe fn new(owns: F, executes: C) -> Self {
        ClaimedMemory { owns, executes }
    }

    /// Returns the bytes at the address if the OS owns them.
    fn at<const BYTES: usize>(&self, address: u64) -> Option<*mut [u8; BYTES]> {
        let is_claimed = (self.owns)(BYTES as u64, address);
        is_claimed.then(|| core::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Returns the instruction parcel at the address if the OS may execute it.
    fn code_at(&self, address: u64) -> Option<*const u16> {
        let is_code = (self.executes)(address);
        is_code.then(|| core::ptr::with_exposed_provenance(address as usize))
    }
}

impl<F: Fn(u64, u64) -> bool, C: Fn(u64) -> bool> PhysicalMemory for ClaimedMemory<F, C> {
    fn read(&self, address: u64, bytes: u64) -> Option<u64> {
        let value = match bytes {
            // SAFETY: the OS may execute there, and the address is aligned. Other harts may write
            // there, so each parcel is read once.
            2 => unsafe { self.code_at(address)?.read_volatile() }.into(),
            // SAFETY: as above, for memory that the OS owns.
            8 => unsafe { self.at::<8>(address)?.cast::<u64>().read_volatile() },
            _ => return None,
        };
        Some(value)
    }
}

impl<F: Fn(u64, u64) -> bool, C: Fn(u64) -> bool> CallerMemory for ClaimedMemory<F, C> {
    fn owns(&self, address: u64, length: u64) -> bool {
        (self.owns)(length, address)
    }

    fn read(&self, address: u64) -> Option<[u8; 16]> {
        // SAFETY: the bytes are the OS's memory, and any bits are valid bytes.
        Some(unsafe { self.at(address)?.read_volatile() })
    }

    fn write(&self, address: u64, word: [u8; 4]) {
        if let Some(place) = self.at(address) {
            // Orders this write after the device's own writes to memory.
            fence::after_device_write();
            // SAFETY: the bytes are the OS's memory.
            unsafe { place.write_volatile(word) };
        }
    }
}
