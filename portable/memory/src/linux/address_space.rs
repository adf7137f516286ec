use crate::OsMemory;

/// The address space that the OS's kernel runs in; each architecture brings its
/// own.
pub trait AddressSpace {
    /// The mapping that `address`, one of the kernel's, belongs to; `None` when
    /// it is not mapped, is not the kernel's, or is mapped in a way unknown
    /// here.
    fn span(&self, memory: &OsMemory, address: u64) -> Option<Span>;

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
