//! Memory that the previous boot stage has filled.

use poorwill_memory::PhysRange;

/// Copies memory from `address` on into `into`.
///
/// # Safety
///
/// Reads there have no side effects, and nothing writes there at the same time.
pub(crate) unsafe fn load(address: u64, into: &mut [u8]) {
    let from = core::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: by the caller's contract; the buffer is a separate object.
    unsafe { from.copy_to(into.as_mut_ptr(), into.len()) }
}

/// The device tree's bytes.
///
/// # Safety
///
/// The blob lies in memory, and nothing else reads or writes it while the slice is used.
pub(crate) unsafe fn tree(blob: PhysRange) -> &'static mut [u8] {
    let start = core::ptr::with_exposed_provenance_mut(blob.start as usize);
    // SAFETY: by the caller's contract.
    unsafe { core::slice::from_raw_parts_mut(start, blob.length() as usize) }
}
