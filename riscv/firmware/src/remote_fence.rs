//! What a remote fence does on a hart, and the one that is under way.

use poorwill_arch::fence;
use poorwill_domain::{FencePages, FenceRange};
use spin::Mutex;

/// What a fence is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fence {
    /// Instruction fetches.
    Instructions,
    /// Translations of a range, in one address space or in all.
    Translations {
        range: FenceRange,
        space: Option<u64>,
    },
    /// Second-stage translations. They are rare, so all are dropped.
    Guests,
    /// A guest's own translations; likewise.
    GuestTranslations,
}

impl Fence {
    /// Runs it on the calling hart.
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

/// The one fence under way.
static UNDER_WAY: Mutex<Option<Fence>> = Mutex::new(None);

/// Sets the fence that harts are to run from here on, or none. Whoever does has the
/// turn (`sbi/rfence.rs`).
pub(crate) fn set_under_way(fence: Option<Fence>) {
    *UNDER_WAY.lock() = fence;
}

/// Runs the fence under way on the calling hart, which has been asked to.
pub(crate) fn run_under_way() {
    let fence = *UNDER_WAY.lock();
    if let Some(fence) = fence {
        fence.run();
    }
}
