//! RFENCE (SBI 3.0, chapter 8).

use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_domain::{ClaimError, FencePages, FenceRange};
use sbi_spec::binary::SbiRet;
use sbi_spec::rfnc::{
    REMOTE_FENCE_I, REMOTE_HFENCE_GVMA, REMOTE_HFENCE_GVMA_VMID, REMOTE_HFENCE_VVMA,
    REMOTE_HFENCE_VVMA_ASID, REMOTE_SFENCE_VMA, REMOTE_SFENCE_VMA_ASID,
};
use spin::Mutex;

use super::{Call, Caller};
use crate::arch::fence;
use crate::hart::{Hart, State};
use crate::platform::time::Time;

/// How long a hart may take to answer. A virtual machine's harts can stand still
/// for a while, a board's never do.
const PATIENCE_MS: u64 = 5000;

/// What a fence is about.
#[derive(Clone, Copy, Debug)]
enum Fence {
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
    fn run(self) {
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
    let [mask, base, ..] = call.arguments;
    let fence = match requested(&call) {
        Ok(Some(fence)) => fence,
        Ok(None) => return SbiRet::not_supported(),
        Err(error) => return super::refusal(error),
    };
    match call.caller.domain.harts(mask as u64, base as u64) {
        Ok(harts) => run_on(super::harts(harts), fence, call.caller),
        Err(error) => return super::refusal(error),
    }
    SbiRet::success(0)
}

/// The fence that is asked for; `None`: one that this hart does not have.
fn requested(call: &Call) -> Result<Option<Fence>, ClaimError> {
    let [_, _, start, size, space, _] = call.arguments;
    let range = || FenceRange::new(start as u64, size as u64);
    let hypervisor = call.caller.hart.description.extensions.hypervisor;
    Ok(Some(match call.function {
        REMOTE_FENCE_I => Fence::Instructions,
        REMOTE_SFENCE_VMA => Fence::Translations {
            range: range()?,
            space: None,
        },
        REMOTE_SFENCE_VMA_ASID => Fence::Translations {
            range: range()?,
            space: Some(space as u64),
        },
        REMOTE_HFENCE_GVMA | REMOTE_HFENCE_GVMA_VMID if hypervisor => Fence::Guests,
        REMOTE_HFENCE_VVMA | REMOTE_HFENCE_VVMA_ASID if hypervisor => Fence::GuestTranslations,
        _ => return Ok(None),
    }))
}

/// Runs the fence on the given harts and waits until all have. A stopped hart
/// has nothing to drop: it fences when it starts. The wait for the turn ends
/// with that of whoever has it, which has a limit.
fn run_on(harts: impl Iterator<Item = &'static Hart>, fence: Fence, caller: Caller) {
    let Caller {
        hart: own, time, ..
    } = caller;
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
    asked.into_iter().for_each(|hart| wait_for(hart, time));
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
fn wait_for(hart: &Hart, time: &Time) {
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
