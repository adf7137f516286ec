//! RFENCE (SBI 3.0, chapter 8).

use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_arch::{Time, interruptible};
use poorwill_domain::{ClaimError, FenceRange, HartSelection};
use poorwill_hart::{HsmState, Request};
use sbi_spec::binary::SbiRet;
use sbi_spec::rfnc::{
    REMOTE_FENCE_I, REMOTE_HFENCE_GVMA, REMOTE_HFENCE_GVMA_VMID, REMOTE_HFENCE_VVMA,
    REMOTE_HFENCE_VVMA_ASID, REMOTE_SFENCE_VMA, REMOTE_SFENCE_VMA_ASID,
};

use super::{Call, Caller};
use crate::hart::Hart;
use crate::platform::console::say;
use crate::remote_fence::{Fence, set_under_way};

/// How long a hart may take to answer before it is named. A virtual machine's harts can
/// stand still for a while, a board's never do.
const PATIENCE_MS: u64 = 5000;

/// Taken by the one hart that has a fence under way. One at a time is enough:
/// whoever waits for its turn serves what it is asked for meanwhile, so nobody waits
/// for a hart that waits.
static TURN: AtomicBool = AtomicBool::new(false);

pub(super) fn call(call: Call) -> SbiRet {
    let [mask, base, ..] = call.arguments;
    let fence = match requested(&call) {
        Ok(Some(fence)) => fence,
        Ok(None) => return SbiRet::not_supported(),
        Err(error) => return super::refusal(error),
    };
    match call.caller.domain.harts(mask as u64, base as u64) {
        Ok(harts) => run(harts, fence, call.caller),
        Err(error) => super::refusal(error),
    }
}

/// Runs the fence on the given harts, and waits for them.
pub(super) fn run(harts: HartSelection<'_>, fence: Fence, caller: Caller) -> SbiRet {
    // SAFETY: who waits for others keeps nothing from the OS's timer.
    unsafe { interruptible(0, || run_on(super::harts(harts), fence, caller)) };
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
/// with that of whoever has it.
fn run_on(harts: impl Iterator<Item = &'static Hart>, fence: Fence, caller: Caller) {
    let Caller {
        hart: own, time, ..
    } = caller;
    while TURN.swap(true, Ordering::Acquire) {
        own.serve_fence();
        core::hint::spin_loop();
    }
    set_under_way(Some(fence));
    let mut asked = arrayvec::ArrayVec::<&Hart, { poorwill_devicetree::MAX_HARTS }>::new();
    for hart in harts {
        if own.is(hart) {
            fence.run();
        } else if hart.state() != HsmState::Stopped {
            hart.send_ipi(Request::Fence);
            asked.push(hart);
        }
    }
    asked.into_iter().for_each(|hart| wait_for(hart, time));
    set_under_way(None);
    TURN.store(false, Ordering::Release);
}

/// Waits until the hart has fenced, also where it has stopped meanwhile: a stopped
/// hart handles IPIs as well. One that was not waited for might complete the next
/// hart's fence, having run this one. One that does not answer is named each time that
/// [`PATIENCE_MS`] have passed: the OS cannot go on without it, as it would take
/// translations for gone that the hart still uses, and a hart that is slow, on a host that
/// is busy, is no reason to end the machine.
fn wait_for(hart: &Hart, time: &Time) {
    let mut began = time.ticks();
    while !hart.has_done(Request::Fence) {
        // The clock is a device, and slower than most answers.
        for _ in 0..1000 {
            if hart.has_done(Request::Fence) {
                return;
            }
            core::hint::spin_loop();
        }
        if time.milliseconds_since(began) > PATIENCE_MS {
            say!("hart {} does not answer a fence", hart.id());
            began = time.ticks();
        }
    }
}
