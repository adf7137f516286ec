//! What a remote fence does on a hart, and the one that is under way.

use spin::Mutex;

use crate::arch::fence;

const PAGE: u64 = 4096;

/// From so many pages on, one fence for everything is cheaper.
const MANY_PAGES: u64 = 64;

/// What a fence is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fence {
    /// Instruction fetches.
    Instructions,
    /// Translations of a range, in one address space or in all.
    Translations {
        start: u64,
        size: u64,
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
            Fence::Translations { start, size, space } => translations(start, size, space),
            Fence::Guests => fence::guests(),
            Fence::GuestTranslations => fence::guest_translations(),
        }
    }
}

fn translations(start: u64, size: u64, space: Option<u64>) {
    // "start and size both zero, or size of all ones: the whole address space."
    let everything = (start == 0 && size == 0) || size == u64::MAX;
    let end = start.saturating_add(size);
    if everything || end - start > MANY_PAGES * PAGE {
        match space {
            Some(space) => fence::space(space),
            None => fence::all(),
        }
        return;
    }
    let mut page = start & !(PAGE - 1);
    while page < end {
        fence::page(page, space);
        page += PAGE;
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
