//! The PMP plan that a domain's regions need, and the permissions that a domain can have.

use arrayvec::ArrayVec;
use poorwill_devicetree::{DomainNode, Partition, Span};
use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::unfenced::Unfenced;
use crate::kept::KeptRanges;
use crate::pmp::{
    MAX_ENTRIES, MAX_PLANNED, PlanError, Pmp, PmpPlan, TooManyRanges, Wanted, physical,
};

/// Names each range with permissions that the firmware cannot give.
pub(super) fn permissions(partition: &Partition, tell: &mut dyn FnMut(Unfenced)) {
    for domain in &partition.domains {
        for span in domain
            .spans()
            .iter()
            .filter(|span| Grant::of(span).is_none())
        {
            tell(Unfenced::Permissions {
                domain: domain.name,
                start: span.range.start,
            });
        }
    }
}

/// Names each domain whose regions the PMP cannot enforce.
pub(super) fn look(
    partition: &Partition,
    kept: &KeptRanges,
    pmp: Pmp,
    tell: &mut dyn FnMut(Unfenced),
) {
    for domain in &partition.domains {
        let needed = entries_of(domain, kept, pmp);
        let error = match needed {
            Err(error) => Some(error),
            Ok(needed) if needed > pmp.entries => Some(PlanError::Entries {
                needed,
                there: pmp.entries,
            }),
            Ok(_) => None,
        };
        if let Some(error) = error {
            tell(Unfenced::Plan {
                domain: domain.name,
                error,
            });
        }
    }
}

/// What a domain may have of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Registers, without instructions.
    ReadWrite,
    /// Memory, or registers with instructions.
    All,
}

impl Grant {
    /// The access to a span; `None` if no domain can have its permissions.
    pub(crate) fn of(span: &Span) -> Option<Self> {
        let is = span.permissions;
        match (is.reads() && is.writes(), is.executes()) {
            (true, true) => Some(Grant::All),
            // The firmware gives the OS all of its memory for instructions.
            (true, false) if span.is_mmio => Some(Grant::ReadWrite),
            _ => None,
        }
    }
}

/// Number of PMP entries that the plan of a domain's regions without the kept ranges needs. It may
/// be more than `pmp` has. Entries have whole pages.
///
/// # Errors
///
/// [`PlanError`]: no number of entries suffices.
pub fn entries_of(domain: &DomainNode, kept: &KeptRanges, pmp: Pmp) -> Result<usize, PlanError> {
    if !pmp.is_there() {
        return Err(PlanError::NoPmp);
    }
    let spans = domain.spans();
    let unit_bits = pmp.granularity_bits.max(PAGE_BYTES.ilog2());
    let is_whole = |address: u64| address.trailing_zeros() >= unit_bits || address == u64::MAX;
    let parts = spans.iter().map(|span| span.range);
    let mut cut = parts.filter(|range| !is_whole(range.start) || !is_whole(range.end));
    if let Some(PhysRange { start, end }) = cut.next() {
        return Err(PlanError::Granularity {
            bits: unit_bits,
            start,
            end,
        });
    }
    let of = |wanted| -> Result<ArrayVec<PhysRange, MAX_PLANNED>, TooManyRanges> {
        let spans = kept
            .spans(domain)
            .filter(|span| Grant::of(span) == Some(wanted));
        let mut all = ArrayVec::new();
        for range in spans.filter_map(|span| physical(span.range)) {
            all.try_push(range).map_err(|_| TooManyRanges)?;
        }
        Ok(all)
    };
    let wanted = Wanted {
        readable: &[],
        closed: kept.ranges(),
        memory: &[],
        devices: &of(Grant::All)?,
        registers: &of(Grant::ReadWrite)?,
    };
    let most = Pmp {
        entries: MAX_ENTRIES,
        ..pmp
    };
    Ok(PmpPlan::new(&wanted, most)?.entries().len())
}
