use crate::{OsMemory, PhysRange};

/// The address space of the OS's kernel. Each architecture has its own implementation.
pub trait AddressSpace {
    /// The mapping of the kernel address `address`; `None` if the address is not mapped,
    /// is not the kernel's, or has an unknown kind of mapping.
    fn span(&self, memory: &OsMemory, address: u64) -> Option<Span>;

    /// Finds the first physical range for which `is_found` is true, in mapping order. It
    /// searches the mappings of kernel addresses from `first` up to the kernel's image,
    /// and the page tables of these mappings. It stops after `most` mappings and tables.
    fn find(
        &self,
        memory: &OsMemory,
        first: u64,
        most: u64,
        is_found: &dyn Fn(&PhysRange) -> bool,
    ) -> Option<PhysRange>;

    /// Whether the search may continue. After the first `false`, all later calls return
    /// `false`, too. The search calls this at least every hundred thousand instructions,
    /// so it must be fast.
    fn goes_on(&self) -> bool {
        true
    }

    /// Whether `address` is in the range that is reserved for the kernel's image.
    fn is_image(&self, address: u64) -> bool;
}

/// One contiguous mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first virtual address.
    pub start: u64,
    /// The physical address of `start`.
    pub physical: u64,
    /// The length in bytes: a power of two. `start` and `physical` are multiples of it.
    pub bytes: u64,
    /// Whether the kernel can write to it.
    pub writable: bool,
    /// Whether user mode can access it.
    pub user: bool,
}
