//! The PMP plan: which entries of physical memory protection (privileged
//! specification, 3.7) keep S and U mode within a domain.
//!
//! It is data, computed from what must be open and what closed, and complete
//! before the first register is written: what a hart's PMP cannot do is an error,
//! and never an entry left out.
//!
//! Entries are matched from the lowest, and the first match decides. So what may
//! be read only comes first; then either what is closed, with one entry behind it
//! that opens all else, or what is open, where no match means no access: whichever
//! takes fewer entries. A range takes a pair of registers (TOR: from one address
//! to another), or an entry for each naturally aligned power of two that it
//! consists of (NAPOT), where these are not more.

mod entry;
mod plan;
mod ranges;
mod registers;

pub use entry::{Access, Entry, MAX_ENTRIES, PHYSICAL_ADDRESS_BITS};
pub use plan::{PlanError, PmpPlan, Wanted};
pub use ranges::{MAX_PLANNED, TooManyRanges};
pub use registers::{Lost, PmpRegisters};

/// The PMP of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pmp {
    /// How many entries it has; 0: the hart has no PMP.
    pub entries: usize,
    /// log2 of the bytes to which ranges are aligned: 2 or more.
    pub granularity_bits: u32,
}

impl Pmp {
    /// Of a hart without PMP, which therefore closes nothing.
    pub const NONE: Pmp = Pmp {
        entries: 0,
        granularity_bits: 2,
    };

    /// Whether the hart has PMP.
    #[must_use]
    pub fn is_there(self) -> bool {
        self.entries > 0
    }

    /// From what `pmpaddr0` reads after all ones were written to it with the entry
    /// off: the lowest bit that stuck tells the granularity (privileged
    /// specification, 3.7.1). No bit, no entry.
    #[must_use]
    pub fn probed(entries: usize, stuck: u64) -> Self {
        if entries == 0 || stuck == 0 {
            return Self::NONE;
        }
        Pmp {
            entries,
            granularity_bits: stuck.trailing_zeros() + entry::ADDRESS_SHIFT,
        }
    }
}
