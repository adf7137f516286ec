//! Detects memory that was added to the running machine.

use super::address_space::AddressSpace;
use super::error::FreeListError;
use super::kernel::Kernel;
use super::note::Key;
use super::search::Known;

/// The number of mappings that the search visits in addition to one for each page. Mappings of
/// other memory lie between those of OS memory or directly after them.
const MORE_MAPPINGS: u64 = 1 << 16;

/// Fails if memory was added. Between the start of its linear map and its image, a kernel
/// maps only memory.
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
