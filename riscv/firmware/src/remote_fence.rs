//! Remote fences: their effect on a hart, and the current one.

use poorwill_arch::fence;
use poorwill_domain::{FencePages, FenceRange};
use spin::Mutex;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fence {
    Instructions,
    /// Translations of a range, in one address space or in all.
    Translations {
        range: FenceRange,
        space: Option<u64>,
    },
    /// Second-stage translations. They are rare, so all are dropped.
    Guests,
    /// A guest's own translations; all are dropped, too.
    GuestTranslations,
}

impl Fence {
    pub(crate) fn run(self) {
        match self {
            Fence::Instructions => fence::instructions(),
            Fence::Translations { range, space } => translations(range, space),
            Fence::Guests => fence::guests(),
            Fence::GuestTranslations => fence::guest_translations(),
        }
    }
}

fn translations(range: FenceRange, space: Option<u64>) {
    match (range.pages(), space) {
        (FencePages::Few(pages), space) => pages.for_each(|page| fence::page(page, space)),
        (FencePages::Everything, Some(space)) => fence::space(space),
        (FencePages::Everything, None) => fence::all(),
    }
}

/// The current fence; there is at most one.
static UNDER_WAY: Mutex<Option<Fence>> = Mutex::new(None);

/// Sets or clears the fence that harts must run. Only the hart with the turn (`sbi/rfence.rs`) may
/// call this.
pub(crate) fn set_under_way(fence: Option<Fence>) {
    *UNDER_WAY.lock() = fence;
}

/// Runs the current fence on the calling hart, on request.
pub(crate) fn run_under_way() {
    let fence = *UNDER_WAY.lock();
    if let Some(fence) = fence {
        fence.run();
    }
}
