//! Memory that the kernel has and the machine did not start with.

use super::address_space::AddressSpace;
use super::error::FreeListError;
use super::kernel::Kernel;
use super::note::Key;
use super::search::Known;

/// How many mappings and tables are looked at beyond those that map all memory page by
/// page, which come first: other memory stands between them or right behind.
const MORE_MAPPINGS: u64 = 1 << 16;

/// Refuses memory that was added: from where it maps all memory to its image, a kernel
/// maps nothing but memory.
pub(super) fn refuse<A: AddressSpace>(
    kernel: &Kernel<'_, A>,
    known: &Known,
) -> Result<(), FreeListError> {
    let memory = kernel.memory;
    let first = known.note.get(Key::LinearMap)?;
    let most = memory.pages() + memory.pages() / 256 + MORE_MAPPINGS;
    let is_added = |range: &_| !memory.is_installed(range);
    match kernel.find(first, most, &is_added) {
        Some(range) => Err(FreeListError::Added(range.start)),
        None => Ok(()),
    }
}
