//! HSM (SBI 3.0, chapter 9).

use poorwill_arch::wait_for_interrupt;
use poorwill_domain::{ClaimError, Domain};
use poorwill_hart::{NotStarted, Task};
use poorwill_memory::EntryPoint;
use sbi_spec::binary::SbiRet;
use sbi_spec::hsm::suspend_type::{NON_RETENTIVE, RETENTIVE};
use sbi_spec::hsm::{HART_GET_STATUS, HART_START, HART_STOP, HART_SUSPEND};

use super::call::{self, Call, Caller};
use crate::cut;
use crate::hart::{self, Hart, domain_state, this_hart};

pub(super) fn call(call: Call) -> SbiRet {
    let [first, second, third, ..] = call.arguments;
    let domain = call.caller.domain;
    match call.function {
        HART_START => {
            start(call.caller, first as u64, second as u64, third).unwrap_or_else(call::refusal)
        }
        HART_STOP => stop(),
        HART_GET_STATUS => status(domain, first as u64).unwrap_or_else(call::refusal),
        // The type is 32 bits wide.
        HART_SUSPEND => suspend(domain, first as u32, second as u64, third),
        _ => SbiRet::not_supported(),
    }
}

/// Time for which a start waits for a domain that is about to sleep: another hart that stops may look
/// for a moment whether it is the last one.
const START_PATIENCE_MS: u64 = 1;

fn start(caller: Caller, id: u64, address: u64, argument: usize) -> Result<SbiRet, ClaimError> {
    let Caller { domain, time, .. } = caller;
    let hart = find(domain, id)?;
    let task = Task::Start(EntryPoint {
        address: domain.executable(address)?.get(),
        argument: argument as u64,
    });
    let began = time.ticks();
    let started = loop {
        let started = hart.start_by_os(task);
        let is_late = time.milliseconds_since(began) >= START_PATIENCE_MS;
        if started != Err(NotStarted::Forbidden) || is_late {
            break started;
        }
        core::hint::spin_loop();
    };
    Ok(match started {
        Ok(()) => SbiRet::success(0),
        Err(NotStarted::State(_)) => SbiRet::already_available(),
        Err(NotStarted::Forbidden) => SbiRet::failed(),
    })
}

/// The hart with this ID, if it is in the caller's domain.
fn find(domain: &Domain, id: u64) -> Result<&'static Hart, ClaimError> {
    let found = hart::find(domain.hart(id)?);
    found.ok_or(ClaimError::Hart(id))
}

fn stop() -> SbiRet {
    let hart = this_hart();
    match hart.hsm().stop() {
        Ok(()) => {
            domain_state::end_if_last(hart);
            hart.wait()
        }
        Err(_) => SbiRet::failed(),
    }
}

fn status(domain: &Domain, id: u64) -> Result<SbiRet, ClaimError> {
    let hart = find(domain, id)?;
    Ok(SbiRet::success(hart.state() as usize))
}

/// Both default types wait for an interrupt here; the hart has no deeper state. After the
/// non-retentive one it continues at `address`.
fn suspend(domain: &Domain, kind: u32, address: u64, argument: usize) -> SbiRet {
    let address = match kind {
        RETENTIVE => None,
        NON_RETENTIVE => match domain.executable(address) {
            Ok(address) => Some(address.get()),
            Err(error) => return call::refusal(error),
        },
        // Platform-specific types are valid but not supported; the others are reserved.
        0x1000_0000..=0x7fff_ffff | 0x9000_0000.. => return SbiRet::not_supported(),
        _ => return SbiRet::invalid_param(),
    };
    let hart = this_hart();
    if hart.hsm().suspend().is_err() {
        return SbiRet::failed();
    }
    wait_for_interrupt();
    hart.hsm()
        .resume()
        .expect("only this hart can leave the suspended state");
    let Some(address) = address else {
        return SbiRet::success(0);
    };
    let entry = EntryPoint {
        address,
        argument: argument as u64,
    };
    // SAFETY: the address was checked, and this hart's call chain ends here.
    unsafe { cut::enter_os(hart, entry) }
}
