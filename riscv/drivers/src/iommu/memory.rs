use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::IommuError;

/// Memory that the IOMMU reads and writes: its tables and queues, in words of 8 bytes.
///
/// Accesses are single and in order: the IOMMU sees all earlier writes before it sees a later one,
/// or a later write to a register. A read comes after all earlier reads of registers.
pub trait TableMemory {
    /// Reads the word at the physical `address`, a multiple of 8.
    fn read(&self, address: u64) -> u64;

    /// Writes the word at the physical `address`, a multiple of 8.
    fn write(&self, address: u64, value: u64);
}

impl<M: TableMemory + ?Sized> TableMemory for &M {
    fn read(&self, address: u64) -> u64 {
        (**self).read(address)
    }

    fn write(&self, address: u64, value: u64) {
        (**self).write(address, value);
    }
}

/// Free pages for tables and queues. No OS and no device reaches them.
#[derive(Debug)]
pub struct TablePages {
    next: u64,
    end: u64,
}

impl TablePages {
    /// The whole pages of `range`.
    #[must_use]
    pub fn new(range: PhysRange) -> Self {
        TablePages {
            next: range.start.next_multiple_of(PAGE_BYTES),
            end: range.end / PAGE_BYTES * PAGE_BYTES,
        }
    }

    /// Pages that are still free.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.next) / PAGE_BYTES
    }

    /// Takes a page and fills it with zeros.
    pub(super) fn take(&mut self, memory: &impl TableMemory) -> Result<u64, IommuError> {
        if self.left() == 0 {
            return Err(IommuError::NoPages);
        }
        let page = self.next;
        self.next += PAGE_BYTES;
        for offset in (0..PAGE_BYTES).step_by(size_of::<u64>()) {
            memory.write(page + offset, 0);
        }
        Ok(page)
    }
}
