use thiserror::Error;

/// The most pages with a note's first bytes that are examined. A kernel has one note;
/// earlier kernels and programs may have left others.
pub(super) const MOST_NOTES: u32 = 8;

/// The reason why the kernel's description cannot be used. Then all nonzero OS memory is saved,
/// which takes longer and loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FreeListError {
    /// The caller has stopped the search.
    #[error("the search was stopped")]
    Ended,
    /// The OS runs without address translation, or in an unknown mode.
    #[error("the OS does not use a known kind of page table")]
    NoPageTables,
    /// No page has a note's first bytes.
    #[error("no Linux kernel describes itself in memory (VMCOREINFO)")]
    NoNote,
    /// Pages have a note's first bytes, but none of them leads to the kernel's note.
    #[error("the kernel description in memory (VMCOREINFO) is not the running kernel's own")]
    NotTheKernels,
    /// Too many pages have a note's first bytes.
    #[error("more than {MOST_NOTES} pages look like a kernel description (VMCOREINFO)")]
    TooManyNotes,
    /// The note has this key twice.
    #[error("the kernel's description has {0} twice")]
    Twice(&'static str),
    /// The note lacks this key.
    #[error("the kernel's description has no {0}")]
    Missing(&'static str),
    /// The note has an impossible or unknown value.
    #[error("the kernel's description says {key}={value:#x}, which this firmware does not know")]
    Unknown {
        #[allow(missing_docs, reason = "the name says it")]
        key: &'static str,
        #[allow(missing_docs, reason = "the name says it")]
        value: u64,
    },
    /// Memory was added to the running machine.
    #[error("the kernel has memory at {0:#x} that the machine did not start with")]
    Added(u64),
    /// A kernel address is not mapped as expected, or not to OS memory.
    #[error("the kernel's address {0:#x} is not mapped to OS memory as expected")]
    Nowhere(u64),
    /// The kernel's symbol table is malformed, or in writable memory.
    #[error("the kernel's symbol table at {0:#x} cannot be read")]
    Symbols(u64),
    /// The symbol table and the note have different addresses for the same symbol, in each known
    /// variant.
    #[error(
        "the kernel's symbol table (offsets at {0:#x}) contradicts its description: \
         this firmware does not know its layout"
    )]
    Misfit(u64),
    /// The kernel has no such symbol, or several.
    #[error("the kernel's symbol table does not have exactly one {0}")]
    NoSymbol(&'static str),
    /// The kernel checks the contents of free pages, or does not map them.
    #[error("the kernel guards its free pages (page_poison or debug_pagealloc)")]
    Guarded,
    /// The fields of a node are inconsistent.
    #[error("the kernel's memory node {0} has inconsistent fields")]
    Node(u64),
    /// An entry of a free list is not a valid free block of the list's order.
    #[error("the kernel's free list at {list:#x} has an invalid block at {block:#x}")]
    Block {
        /// The address of the list's head.
        list: u64,
        /// The address of the invalid entry's links.
        block: u64,
    },
    /// A zone's count of blocks differs from its lists.
    #[error("the kernel counts {counted} free blocks of order {order}, but lists {listed}")]
    Blocks {
        /// The order of the blocks.
        order: u64,
        /// The zone's count.
        counted: u64,
        /// The number of blocks in its lists.
        listed: u64,
    },
    /// A zone's count of pages differs from its lists.
    #[error("the kernel counts {counted} free pages, but lists {listed}")]
    Pages {
        /// The zone's count.
        counted: u64,
        /// The number of pages in its lists.
        listed: u64,
    },
}
