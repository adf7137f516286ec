//! The free pages of a stopped Linux, as the kernel itself describes them.
//!
//! A kernel that can be dumped after a crash keeps a note in its memory,
//! VMCOREINFO, with the addresses and layouts that a dump is read by. The same
//! note serves here: it leads to the zones, and they to the lists of their free
//! blocks (the buddy allocator's). Nothing is asked of the OS, and nothing in
//! it is changed.
//!
//! # What is trusted
//!
//! A page that is wrongly taken for free is zero after the wake. So a program that could
//! make this code believe it could zero the memory of others. The note is found by its
//! first bytes, which any program may have in its own pages. Hence:
//!
//! 1. Translation starts at the root that the hart itself uses at the moment of
//!    the call ([`AddressSpace`]), which only the kernel can set. Addresses are
//!    read in the kernel's half alone, and never through a mapping that is open
//!    to user mode.
//! 2. A note found is a hint, no more. It says where the kernel's table of
//!    symbols is, and by what it names, which variant of such a table. All that
//!    is read of a table, in every variant, must lie in the kernel's image,
//!    where the kernel itself cannot write; and the table must know what else
//!    the note names at just the addresses that the note gives. So a table that
//!    is read in the way of another version does not count either.
//! 3. The table leads to the kernel's own pointer to its note. Only the note
//!    that this pointer leads to is believed, and only if it names the same
//!    table in the same variant. So a forged note, or one that an
//!    earlier kernel left behind, does not count, and does not keep the true
//!    one from being used.
//! 4. What the true note says is the kernel's word, which may still be that of
//!    a kernel unknown here. So every number is checked against the others,
//!    and the lists against the structures that they link: each block must be
//!    marked free, be of its list's order, lie in its node and in OS memory,
//!    overlap no other, and be linked both ways; each zone's blocks must be as
//!    many as it counts, and its pages as many as it calls free.
//!
//! Whatever does not fit is a [`FreeListError`], and then no page at all counts as
//! free: the machine sleeps as if this module were not there.
//!
//! # Memory that was added
//!
//! Of memory that was added to a running machine the firmware knows nothing, so no image
//! has it. It is seen where the kernel maps it: a sleep is refused then, which is the one
//! error here that it does not go on with ([`FreeListError::Added`]).
//!
//! # Pages that must not change though they are free
//!
//! With `page_poison=1` the kernel fills free pages with a pattern and looks at
//! it when it takes them; with `debug_pagealloc=on` free pages are not mapped.
//! Both are read from the kernel's own switches, and both are errors here.
//! `init_on_free=1` relies on free pages being zeros: a wake must leave no other
//! in them, so that is told with them ([`FreeContents`]). Everything else takes
//! what free pages hold as it comes.

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

/// What a stopped Linux has free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// How many pages.
    pub pages: u64,
    /// What it expects to find in them.
    pub contents: FreeContents,
}

/// Puts the pages that the stopped Linux has free into `free`, which is for the
/// pages of `memory` and empty.
///
/// Every hart of the OS is stopped, and nothing writes memory meanwhile.
///
/// # Errors
///
/// [`FreeListError`]: then `free` is empty again.
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
