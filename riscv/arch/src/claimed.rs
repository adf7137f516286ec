//! The memory of an OS, as those reach it who serve its accesses.

use poorwill_drivers::mediated::CallerMemory;
use poorwill_hart::emulation::PhysicalMemory;

use crate::fence;

/// The memory of an OS.
#[derive(Clone, Copy, Debug)]
pub struct ClaimedMemory<F, C> {
    /// Tells whether so many bytes at a physical address are its.
    owns: F,
    /// Tells whether it may execute at one.
    executes: C,
}

impl<F: Fn(u64, u64) -> bool, C: Fn(u64) -> bool> ClaimedMemory<F, C> {
    /// What `owns` says to be an OS's memory: the number of bytes, and their address;
    /// and for instructions what `executes` says, which may be flash too.
    ///
    /// # Safety
    ///
    /// It is memory, of which Rust's objects are no part; where it executes, reading has
    /// no side effects.
    pub unsafe fn new(owns: F, executes: C) -> Self {
        ClaimedMemory { owns, executes }
    }

    /// The bytes at the address, if they are the OS's.
    fn at<const BYTES: usize>(&self, address: u64) -> Option<*mut [u8; BYTES]> {
        let is_claimed = (self.owns)(BYTES as u64, address);
        is_claimed.then(|| core::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// A part of an instruction at the address, if the OS may execute there.
    fn code_at(&self, address: u64) -> Option<*const u16> {
        let is_code = (self.executes)(address);
        is_code.then(|| core::ptr::with_exposed_provenance(address as usize))
    }
}

impl<F: Fn(u64, u64) -> bool, C: Fn(u64) -> bool> PhysicalMemory for ClaimedMemory<F, C> {
    fn read(&self, address: u64, bytes: u64) -> Option<u64> {
        let value = match bytes {
            // SAFETY: the OS's to execute, and aligned, says the caller; its harts may
            // write there meanwhile, so each is read once.
            2 => unsafe { self.code_at(address)?.read_volatile() }.into(),
            // SAFETY: the OS's memory, and likewise.
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
