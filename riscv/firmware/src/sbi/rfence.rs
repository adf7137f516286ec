//! RFENCE (SBI 3.0, chapter 8).

use core::sync::atomic::{AtomicBool, Ordering};

use sbi_spec::binary::SbiRet;
use sbi_spec::rfnc::{
    REMOTE_FENCE_I, REMOTE_HFENCE_GVMA, REMOTE_HFENCE_GVMA_VMID, REMOTE_HFENCE_VVMA,
    REMOTE_HFENCE_VVMA_ASID, REMOTE_SFENCE_VMA, REMOTE_SFENCE_VMA_ASID,
};
use spin::Mutex;

use super::Call;
use crate::arch::fence;
use crate::hart::{Hart, State, this_hart};
use crate::platform::platform;

const PAGE: u64 = 4096;

/// How long a hart may take to answer. A virtual machine's harts can stand still
/// for a while, a board's never do.
const PATIENCE_MS: u64 = 5000;

/// From so many pages on, one fence for everything is cheaper.
const MANY_PAGES: u64 = 64;

/// What a fence is about.
#[derive(Clone, Copy, Debug)]
enum Fence {
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
    fn run(self) {
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

/// The one fence under way. One at a time is enough: whoever waits for its turn
/// serves its own inbox meanwhile, so nobody waits for a hart that waits.
static UNDER_WAY: Mutex<Option<Fence>> = Mutex::new(None);
static TURN: AtomicBool = AtomicBool::new(false);

/// Where a hart is told of the fence under way.
#[derive(Debug)]
pub(crate) struct Inbox(AtomicBool);

impl Inbox {
    pub(crate) const fn new() -> Self {
        Inbox(AtomicBool::new(false))
    }

    /// Runs the fence that the calling hart is asked for, if any.
    pub(crate) fn serve(&self) {
        if !self.0.load(Ordering::Acquire) {
            return;
        }
        let fence = *UNDER_WAY.lock();
        if let Some(fence) = fence {
            fence.run();
        }
        self.0.store(false, Ordering::Release);
    }

    fn is_served(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}

pub(super) fn call(call: Call) -> SbiRet {
    let [mask, base, start, size, space, _] = call.arguments;
    let (start, size, space) = (start as u64, size as u64, space as u64);
    let hypervisor = this_hart().description.extensions.hypervisor;
    let fence = match call.function {
        REMOTE_FENCE_I => Fence::Instructions,
        REMOTE_SFENCE_VMA => Fence::Translations {
            start,
            size,
            space: None,
        },
        REMOTE_SFENCE_VMA_ASID => Fence::Translations {
            start,
            size,
            space: Some(space),
        },
        REMOTE_HFENCE_GVMA | REMOTE_HFENCE_GVMA_VMID if hypervisor => Fence::Guests,
        REMOTE_HFENCE_VVMA | REMOTE_HFENCE_VVMA_ASID if hypervisor => Fence::GuestTranslations,
        _ => return SbiRet::not_supported(),
    };
    if matches!(fence, Fence::Translations { start, size, .. }
        if size != u64::MAX && start.checked_add(size).is_none())
    {
        return SbiRet::invalid_address();
    }
    match super::harts(mask, base) {
        Ok(harts) => run_on(harts, fence),
        Err(error) => return error,
    }
    SbiRet::success(0)
}

/// Runs the fence on the given harts and waits until all have. A stopped hart
/// has nothing to drop: it fences when it starts. The wait for the turn ends
/// with that of whoever has it, which has a limit.
fn run_on(harts: impl Iterator<Item = &'static Hart>, fence: Fence) {
    let own = this_hart();
    while TURN.swap(true, Ordering::Acquire) {
        own.fences.serve();
        core::hint::spin_loop();
    }
    *UNDER_WAY.lock() = Some(fence);
    let mut asked = arrayvec::ArrayVec::<&Hart, { poorwill_devicetree::MAX_HARTS }>::new();
    for hart in harts {
        if core::ptr::eq(hart, own) {
            fence.run();
        } else if is_running(hart) {
            hart.fences.0.store(true, Ordering::Release);
            hart.ring();
            asked.push(hart);
        }
    }
    asked.into_iter().for_each(wait_for);
    *UNDER_WAY.lock() = None;
    TURN.store(false, Ordering::Release);
}

/// Waits until the hart has fenced, or has stopped: a hart serves its inbox on
/// the way to a stop.
///
/// # Panics
///
/// When it does neither within [`PATIENCE_MS`]. The OS cannot go on: it would
/// take translations for gone that the hart still uses.
fn wait_for(hart: &Hart) {
    let time = &platform().time;
    let began = time.ticks();
    while !hart.fences.is_served() && is_running(hart) {
        // The clock is a device, and slower than most answers.
        for _ in 0..1000 {
            if hart.fences.is_served() {
                return;
            }
            core::hint::spin_loop();
        }
        let waited = time.milliseconds_since(began);
        assert!(
            waited <= PATIENCE_MS,
            "hart {} does not answer a fence",
            hart.id()
        );
    }
}

fn is_running(hart: &Hart) -> bool {
    hart.state() != State::Stopped
}
