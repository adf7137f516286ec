//! Memory of an IOMMU's tables and queues.

use core::ptr::with_exposed_provenance_mut;

use poorwill_drivers::iommu::TableMemory;
use poorwill_memory::PhysRange;

use crate::fence;

/// Pages of machine mode that an IOMMU reads and writes.
#[derive(Debug)]
pub struct IommuMemory {
    range: PhysRange,
}

impl IommuMemory {
    /// The memory of `range`.
    ///
    /// # Safety
    ///
    /// It is coherent memory of machine mode, which the IOMMU alone uses besides this value.
    pub unsafe fn new(range: PhysRange) -> Self {
        IommuMemory { range }
    }

    /// The word at `address`, which is one of the range.
    fn word(&self, address: u64) -> *mut u64 {
        let bytes = PhysRange::new(address, size_of::<u64>() as u64);
        let is_within = self.range.start <= bytes.start && bytes.end <= self.range.end;
        assert!(
            is_within && address.is_multiple_of(size_of::<u64>() as u64),
            "the IOMMU's tables do not have {address:#x}"
        );
        with_exposed_provenance_mut(address as usize)
    }
}

impl TableMemory for IommuMemory {
    fn read(&self, address: u64) -> u64 {
        let word = self.word(address);
        fence::after_device_read();
        // SAFETY: the word is in the range, which the value's maker guaranteed.
        unsafe { word.read_volatile() }
    }

    fn write(&self, address: u64, value: u64) {
        let word = self.word(address);
        // SAFETY: the word is in the range, which the value's maker guaranteed.
        unsafe { word.write_volatile(value) }
        // Before later writes, also those to registers.
        fence::everything();
    }
}
