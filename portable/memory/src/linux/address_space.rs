use crate::{OsMemory, PhysRange};

/// The address space that the OS's kernel runs in; each architecture brings its
/// own.
pub trait AddressSpace {
    /// The mapping that `address`, one of the kernel's, belongs to; `None` when
    /// it is not mapped, is not the kernel's, or is mapped in a way unknown
    /// here.
    fn span(&self, memory: &OsMemory, address: u64) -> Option<Span>;

    /// The first physical addresses of which `is_found` holds, among those that the
    /// kernel's addresses from `first` up to its image stand for, and those of the tables
    /// that say so. No more than `most` mappings and tables are looked at.
    fn find(
        &self,
        memory: &OsMemory,
        first: u64,
        most: u64,
        is_found: &dyn Fn(&PhysRange) -> bool,
    ) -> Option<PhysRange>;

    /// Whether the search may go on. Once it may not, it never may again. It is asked at the
    /// latest after so many pages or blocks as take a hundred thousand instructions, and is to
    /// cost little.
    fn goes_on(&self) -> bool {
        true
    }

    /// Whether the kernel's image, and nothing but it, may be at `address`.
    fn is_image(&self, address: u64) -> bool;
}

/// Addresses that are mapped in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// What it stands for.
    pub physical: u64,
    /// Bytes mapped: a power of two, and `start` and `physical` are multiples
    /// of it.
    pub bytes: u64,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether user mode can reach it.
    pub user: bool,
}
