//! The PMP plan: entries of physical memory protection (privileged specification, 3.7) that keep S
//! and U mode within a domain.
//!
//! The plan is data, computed from open and closed ranges. It is complete before the first register
//! is written. A plan that the hart's PMP cannot hold is an error; no entry is left out.
//!
//! The lowest entry that matches decides. So read-only ranges come first, then registers, which
//! are open for reads and writes alone. After them comes the
//! shorter of two lists: a deny list (closed ranges, then one entry that opens all other
//! addresses), or an allow list (open ranges; no match means no access). A range takes a pair of
//! registers (TOR: start and end address). If no more entries are needed, it takes one for each
//! naturally aligned power of two in it (NAPOT).

mod entry;
mod plan;
mod ranges;
mod registers;
mod translated;

use poorwill_memory::PhysRange;

pub use entry::{Access, Entry, MAX_ENTRIES, PHYSICAL_ADDRESS_BITS};
pub use plan::{PlanError, PmpPlan, Wanted};
pub(crate) use ranges::join;
pub use ranges::{MAX_PLANNED, TooManyRanges};
pub use registers::{Lost, PmpRegisters};
pub use translated::TranslatedCode;

/// The physical addresses of a range; `None` without such addresses.
pub(crate) fn physical(range: PhysRange) -> Option<PhysRange> {
    let end = range.end.min(entry::ALL_ADDRESSES.end);
    (range.start < end).then_some(PhysRange { end, ..range })
}

/// The PMP of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pmp {
    /// Number of entries; 0: the hart has no PMP.
    pub entries: usize,
    /// log2 of the bytes to which ranges are aligned; 2 or more.
    pub granularity_bits: u32,
}

impl Pmp {
    /// A hart without PMP.
    pub const NONE: Pmp = Pmp {
        entries: 0,
        granularity_bits: 2,
    };

    /// Returns whether the hart has PMP.
    #[must_use]
    pub fn is_there(self) -> bool {
        self.entries > 0
    }

    /// Computes the granularity from `stuck`, the value of `pmpaddr0` after all ones were written
    /// with the entry off. The lowest set bit tells the granularity (privileged specification,
    /// 3.7.1). With no bit set there is no PMP.
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
