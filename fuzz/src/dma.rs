//! Memory as a device reaches it: by address, and only where it was given.

use std::cell::RefCell;

use poorwill_medium::nvme::fake::DeviceMemory;
use poorwill_memory::{PhysRange, to_usize};

/// What a device may access now.
#[derive(Debug, Default)]
pub struct DmaMemory(RefCell<Vec<PhysRange>>);

impl DmaMemory {
    /// Lends a range of memory.
    ///
    /// # Safety
    ///
    /// It is memory whose provenance is exposed, and until [`DmaMemory::take_back`]
    /// nothing but volatile accesses and the device touch it.
    pub unsafe fn lend(&self, range: PhysRange) {
        self.0.borrow_mut().push(range);
    }

    /// Takes back what was given from this address on, if anything was.
    pub fn take_back(&self, start: u64) {
        let mut ranges = self.0.borrow_mut();
        if let Some(place) = ranges.iter().position(|range| range.start == start) {
            ranges.swap_remove(place);
        }
    }

    fn check(&self, address: u64) {
        let is_lent = |range: &PhysRange| {
            range.start <= address && address.checked_add(8).is_some_and(|end| end <= range.end)
        };
        assert!(
            address.is_multiple_of(8) && self.0.borrow().iter().any(is_lent),
            "the device accesses {address:#x}, which is not dma to it"
        );
    }
}

impl DeviceMemory for DmaMemory {
    /// # Panics
    ///
    /// When the address was not given: a driver gave a device a wrong address.
    fn load(&self, address: u64) -> u64 {
        self.check(address);
        let pointer = std::ptr::with_exposed_provenance::<u64>(to_usize(address));
        // SAFETY: the word is aligned and lies in memory that was given.
        unsafe { pointer.read_volatile() }
    }

    /// # Panics
    ///
    /// As [`DmaMemory::load`].
    fn store(&self, address: u64, value: u64) {
        self.check(address);
        let pointer = std::ptr::with_exposed_provenance_mut::<u64>(to_usize(address));
        // SAFETY: as in `load`.
        unsafe { pointer.write_volatile(value) }
    }
}
