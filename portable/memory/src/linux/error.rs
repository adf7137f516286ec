use thiserror::Error;

/// How many pages that begin like a note are examined. A kernel has one; earlier kernels and
/// programs may have left others.
pub(super) const MOST_NOTES: u32 = 8;

/// Why the free lists cannot be used. All of OS memory that is not zero is saved then, which
/// takes longer and loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FreeListError {
    /// The search was not to go on.
    #[error("the search has been ended")]
    Ended,
    /// The OS runs without address translation, or in a mode unknown here.
    #[error("the OS does not run on page tables")]
    NoPageTables,
    /// No page begins like a note.
    #[error("no Linux kernel describes itself in memory (VMCOREINFO)")]
    NoNote,
    /// There are pages that begin like a note, and none leads to the kernel's.
    #[error("what claims to describe the kernel (VMCOREINFO) is not the kernel's own")]
    NotTheKernels,
    /// Too many of them.
    #[error("more than {MOST_NOTES} pages claim to describe the kernel (VMCOREINFO)")]
    TooManyNotes,
    /// The note says something twice.
    #[error("the kernel's description has {0} twice")]
    Twice(&'static str),
    /// The note does not say what is needed.
    #[error("the kernel's description has no {0}")]
    Missing(&'static str),
    /// The note says what cannot be, or what this version does not know.
    #[error("the kernel's description says {key}={value:#x}, which this firmware does not know")]
    Unknown {
        /// What.
        key: &'static str,
        /// How much.
        value: u64,
    },
    /// The kernel has memory that the machine did not start with.
    #[error("the kernel has memory at {0:#x} that the machine did not start with")]
    Added(u64),
    /// An address of the kernel is not mapped as it should be, or not to OS
    /// memory.
    #[error("the kernel's address {0:#x} leads nowhere")]
    Nowhere(u64),
    /// The kernel's symbol table is malformed, or lies in writable memory.
    #[error("the kernel's table of symbols at {0:#x} cannot be read")]
    Symbols(u64),
    /// The table of symbols gives other addresses than the note, in every way of
    /// reading it that is known for such a note.
    #[error(
        "the kernel's table of symbols (offsets at {0:#x}) does not fit its description: \
         no layout known here"
    )]
    Misfit(u64),
    /// The kernel has no such symbol, or several.
    #[error("the kernel's table of symbols does not have one {0}")]
    NoSymbol(&'static str),
    /// The kernel checks what it left in free pages, or does not map them.
    #[error("the kernel guards its free pages (page_poison or debug_pagealloc)")]
    Guarded,
    /// A node is not what it should be.
    #[error("the kernel's description of memory node {0} does not fit")]
    Node(u64),
    /// A free list contains something that is not a free block of its order.
    #[error("the kernel's free list at {list:#x} has {block:#x}, which does not belong there")]
    Block {
        /// Address of the list's head.
        list: u64,
        /// Address of what is linked.
        block: u64,
    },
    /// A zone counts other blocks than there are.
    #[error("the kernel counts {counted} free blocks of order {order}, and has {listed}")]
    Blocks {
        /// The blocks' order.
        order: u64,
        /// What the zone counts.
        counted: u64,
        /// How many its lists have.
        listed: u64,
    },
    /// A zone counts other pages than there are.
    #[error("the kernel counts {counted} free pages, and has {listed}")]
    Pages {
        /// What the zone counts.
        counted: u64,
        /// How many its lists have.
        listed: u64,
    },
}
