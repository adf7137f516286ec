//! Finds the free pages of a stopped Linux from its own description, and the function with which it
//! suspends devices.
//!
//! A kernel that supports crash dumps keeps a note in its memory, VMCOREINFO, with the
//! addresses and layouts that a dump's reader needs. This note leads to the zones, and
//! these lead to the buddy allocator's lists of free blocks. The OS is neither called nor
//! changed.
//!
//! # Trust
//!
//! If a used page counted as free, it would be zero after the wake. A program that could
//! cause that could zero the memory of others. Any program may have a note's first bytes
//! in its own pages. Therefore:
//!
//! 1. Translation starts at the root page table that the hart uses at the moment of the
//!    call ([`AddressSpace`]), which only the kernel can set. Only addresses in the
//!    kernel's half are read, and only through mappings that user mode cannot access.
//! 2. A note is only a hint. It gives the address and the variant of the kernel's symbol
//!    table. All parts of a table must lie in the kernel's image, which the kernel itself
//!    cannot write. The table must have the note's other symbols at exactly the note's
//!    addresses. This also rejects a table that is read in the wrong variant.
//! 3. The symbol table leads to the kernel's own pointer to its note. Only the note at
//!    this pointer is used, and only if it names the same table in the same variant. So a
//!    forged or stale note is rejected, and does not hide the true one.
//! 4. The true note may still be from an unknown kernel version. So all numbers are
//!    checked against each other, and the lists against their structures. Each block must
//!    be marked free, have its list's order, and lie in its node and in OS memory. It must
//!    overlap no other block, and be linked both ways. Each zone's counts of blocks and pages must
//!    match its lists.
//!
//! After any [`FreeListError`], no page counts as free: the machine sleeps as if this
//! module did not exist.
//!
//! # Added memory
//!
//! The firmware does not know memory that was added to a running machine, so no image
//! would include it. The search detects such memory in the kernel's mappings, and then
//! the sleep is refused. This is the only error here that refuses a sleep
//! ([`FreeListError::Added`]).
//!
//! # Free pages that must not change
//!
//! With `page_poison=1` the kernel fills free pages with a pattern and checks it later;
//! with `debug_pagealloc=on` it does not map free pages. The kernel's own switches reveal
//! both, and both are errors here. With `init_on_free=1` the kernel relies on zeros in
//! free pages, so a wake must leave only zeros there ([`FreeContents`]). In all other
//! cases free pages may have any contents.

mod added;
mod address_space;
mod buddy;
mod error;
mod kernel;
mod layout;
mod note;
mod offsets;
mod search;
mod symbols;

pub use address_space::{AddressSpace, Span};
pub use error::FreeListError;
pub use offsets::KNOWN_VERSIONS;

use crate::{FreeContents, OsMemory, PageMap};
use kernel::Kernel;
use symbols::Symbol;

/// The free pages of a stopped Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Their number.
    pub pages: u64,
    /// The contents that the OS expects in them.
    pub contents: FreeContents,
}

/// Adds the free pages of the stopped Linux to `free`, which must be an empty map for the
/// pages of `memory`.
///
/// All harts of the OS must be stopped, and nothing may write memory.
///
/// # Errors
///
/// [`FreeListError`]: `free` is empty again.
pub fn free_pages<A: AddressSpace>(
    memory: &OsMemory,
    space: &A,
    free: &mut PageMap<'_>,
) -> Result<Free, FreeListError> {
    let found = find(&mut Kernel::new(memory, space), free);
    if found.is_err() {
        free.clear();
    }
    found
}

/// Returns the address of the function with which the stopped Linux begins to suspend its devices.
/// A mistake costs time and nothing else: the caller may stop a kernel at any instruction.
///
/// The search looks at the first bytes of each page, and reads at most eight tables of symbols, each
/// of at most 2^20 names.
///
/// All harts of the OS must be stopped, and nothing may write memory.
///
/// # Errors
///
/// [`FreeListError`].
pub fn suspend_start<A: AddressSpace>(memory: &OsMemory, space: &A) -> Result<u64, FreeListError> {
    let known = search::of_kernel(&mut Kernel::new(memory, space))?;
    known.symbols.address(Symbol::SuspendStart)
}

fn find<A: AddressSpace>(
    kernel: &mut Kernel<'_, A>,
    free: &mut PageMap<'_>,
) -> Result<Free, FreeListError> {
    let known = search::of_kernel(kernel)?;
    added::refuse(kernel, &known)?;
    Ok(Free {
        pages: buddy::mark(kernel, &known, free)?,
        contents: buddy::contents(kernel, &known)?,
    })
}
