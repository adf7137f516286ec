//! The memory of an OS, as those reach it who serve its accesses.

use poorwill_drivers::mediated::CallerMemory;
use poorwill_hart::emulation::PhysicalMemory;

use crate::fence;

/// The memory of an OS; `F` tells whether so many bytes at a physical address are its.
#[derive(Clone, Copy, Debug)]
pub struct ClaimedMemory<F>(F);

impl<F: Fn(u64, u64) -> bool> ClaimedMemory<F> {
    /// What `owns` says to be an OS's memory: the number of bytes, and their address.
    ///
    /// # Safety
    ///
    /// It is memory, of which Rust's objects are no part.
    pub unsafe fn new(owns: F) -> Self {
        ClaimedMemory(owns)
    }

    /// The bytes at the address, if they are the OS's.
    fn at<const BYTES: usize>(&self, address: u64) -> Option<*mut [u8; BYTES]> {
        let is_claimed = (self.0)(BYTES as u64, address);
        is_claimed.then(|| core::ptr::with_exposed_provenance_mut(address as usize))
    }
}

impl<F: Fn(u64, u64) -> bool> PhysicalMemory for ClaimedMemory<F> {
    fn read(&self, address: u64, bytes: u64) -> Option<u64> {
        let value = match bytes {
            // SAFETY: the OS's memory, and aligned, says the caller; its harts may write
            // there meanwhile, so each is read once.
            2 => unsafe { self.at::<2>(address)?.cast::<u16>().read_volatile() }.into(),
            // SAFETY: likewise.
            8 => unsafe { self.at::<8>(address)?.cast::<u64>().read_volatile() },
            _ => return None,
        };
        Some(value)
    }
}

impl<F: Fn(u64, u64) -> bool> CallerMemory for ClaimedMemory<F> {
    fn owns(&self, address: u64, length: u64) -> bool {
        (self.0)(length, address)
    }

    fn read(&self, address: u64) -> Option<[u8; 16]> {
        // SAFETY: the OS's memory, and any bits are bytes.
        Some(unsafe { self.at(address)?.read_volatile() })
    }

    fn write(&self, address: u64, word: [u8; 4]) {
        if let Some(place) = self.at(address) {
            // What the device did to memory comes before.
            fence::after_device_write();
            // SAFETY: the OS's memory.
            unsafe { place.write_volatile(word) };
        }
    }
}
