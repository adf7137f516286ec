//! RFENCE (SBI 3.0, chapter 8).

use poorwill_arch::{Time, interruptible};
use poorwill_domain::{ClaimError, FenceRange, HartSelection};
use poorwill_hart::{HsmState, Request};
use sbi_spec::binary::SbiRet;
use sbi_spec::rfnc::{
    REMOTE_FENCE_I, REMOTE_HFENCE_GVMA, REMOTE_HFENCE_GVMA_VMID, REMOTE_HFENCE_VVMA,
    REMOTE_HFENCE_VVMA_ASID, REMOTE_SFENCE_VMA, REMOTE_SFENCE_VMA_ASID,
};

use super::call::{self, Call, Caller};
use crate::domain::fences::Fence;
use crate::hart::Hart;

/// Time after which a hart without an answer is reported. A virtual machine's harts may pause for a
/// while; a board's harts never do.
const PATIENCE_MS: u64 = 5000;

pub(super) fn call(call: Call) -> SbiRet {
    let [mask, base, ..] = call.arguments;
    let fence = match requested(&call) {
        Ok(Some(fence)) => fence,
        Ok(None) => return SbiRet::not_supported(),
        Err(error) => return call::refusal(error),
    };
    match call.caller.domain.harts(mask as u64, base as u64) {
        Ok(harts) => run(harts, fence, call.caller),
        Err(error) => call::refusal(error),
    }
}

/// Runs the fence on these harts, and waits for them.
pub(super) fn run(harts: HartSelection<'_>, fence: Fence, caller: Caller) -> SbiRet {
    // SAFETY: the wait holds nothing that the OS's timer needs.
    unsafe { interruptible(0, || run_on(call::harts(harts), fence, caller)) };
    SbiRet::success(0)
}

/// The requested fence; `None` if this hart does not have it.
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

/// Runs the fence on these harts and waits until all have run it. A stopped hart has nothing to
/// drop: it fences when it starts. The wait for the turn ends when its holder is done.
fn run_on(harts: impl Iterator<Item = &'static Hart>, fence: Fence, caller: Caller) {
    let Caller {
        hart: own, time, ..
    } = caller;
    let send = || {
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
    };
    let fences = &caller.domain.fences;
    fences.with(fence, || own.serve_fence(), send);
}

/// Waits until the hart has fenced, even if it has stopped: a stopped hart serves IPIs, too. If it
/// were not waited for, it might run this fence late and complete the next one. A hart without an
/// answer is reported each [`PATIENCE_MS`]. The wait has no end: otherwise the OS would
/// count translations as dropped that the hart still uses. A slow hart on a busy host is no reason
/// to reset the machine.
fn wait_for(hart: &Hart, time: &Time) {
    let mut began = time.ticks();
    while !hart.has_done(Request::Fence) {
        // The clock is a device, slower than most answers.
        for _ in 0..1000 {
            if hart.has_done(Request::Fence) {
                return;
            }
            core::hint::spin_loop();
        }
        if time.milliseconds_since(began) > PATIENCE_MS {
            (hart.domain()).say(format_args!("hart {} does not answer a fence", hart.id()));
            began = time.ticks();
        }
    }
}
