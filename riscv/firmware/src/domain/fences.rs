//! Remote fences: their effect on a hart, and the current one of each domain.

use core::sync::atomic::{AtomicBool, Ordering};

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

/// The fences of a domain. One at a time is enough, and no domain waits for another's.
#[derive(Debug)]
pub(crate) struct Fences {
    /// Held by the hart whose fence is current. A hart that waits for its turn serves requested
    /// fences, so waiting harts never wait for each other.
    turn: AtomicBool,
    /// The current fence; there is at most one.
    under_way: Mutex<Option<Fence>>,
}

impl Fences {
    pub(crate) const fn new() -> Self {
        Fences {
            turn: AtomicBool::new(false),
            under_way: Mutex::new(None),
        }
    }

    /// Makes `fence` the current one while `send` runs, which asks the harts for it. Calls
    /// `while_waiting` until it is this hart's turn.
    pub(crate) fn with(&self, fence: Fence, while_waiting: impl Fn(), send: impl FnOnce()) {
        while self.turn.swap(true, Ordering::Acquire) {
            while_waiting();
            core::hint::spin_loop();
        }
        *self.under_way.lock() = Some(fence);
        send();
        *self.under_way.lock() = None;
        self.turn.store(false, Ordering::Release);
    }

    /// Runs the current fence on the calling hart, on request.
    pub(crate) fn run_under_way(&self) {
        let fence = *self.under_way.lock();
        if let Some(fence) = fence {
            fence.run();
        }
    }
}
