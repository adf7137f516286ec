//! SUSP (SBI 3.0, chapter 13).

use poorwill_arch::interruptible;
use poorwill_domain::Request;
use poorwill_memory::EntryPoint;
use sbi_spec::binary::SbiRet;
use sbi_spec::susp::SUSPEND;

use super::call::{self, Call, Caller};
use super::console::print_waiting;
use crate::cut;
use crate::executor;
use crate::hart::domain_state::DomainStopped;
use crate::platform::power_fail;
use crate::sleep::{self, Depth, Refused};

/// `SUSPEND_TO_RAM`, the only standard sleep type.
const SUSPEND_TO_RAM: u32 = 0;

/// Maximum wait for the OS's other harts to stop. Linux counts a CPU as dead before that CPU calls
/// HSM, asks for its state once, warns, and continues with the sleep. A virtual machine's hart may
/// pause at that point.
const STOP_PATIENCE_MS: u64 = 1000;

pub(super) fn call(call: Call) -> SbiRet {
    let [kind, address, argument, ..] = call.arguments;
    match call.function {
        // The type is 32 bits wide.
        SUSPEND => suspend(call.caller, kind as u32, address as u64, argument as u64),
        _ => SbiRet::not_supported(),
    }
}

fn suspend(caller: Caller, kind: u32, address: u64, argument: u64) -> SbiRet {
    let Caller { hart, domain, .. } = caller;
    if kind != SUSPEND_TO_RAM {
        domain.say(format_args!("sleep refused: unknown sleep type {kind:#x}"));
        // Reserved or platform-specific; Poorwill defines none.
        return SbiRet::invalid_param();
    }
    let address = match domain.executable(address) {
        Ok(address) => address.get(),
        Err(error) => {
            domain.say(format_args!(
                "sleep refused: the OS may not execute at the resume address {address:#x}"
            ));
            return call::refusal(error);
        }
    };
    let vector = EntryPoint { address, argument };
    match sleep(caller, vector) {
        Ok(()) => {
            print_waiting(hart, caller.time);
            executor::resume(hart, vector);
            // SAFETY: the address was checked, and this hart's call chain ends here.
            unsafe { cut::enter_os(hart, vector) }
        }
        Err(answer) => answer,
    }
}

/// Puts the machine to sleep, or the domain alone if it has no right to that. The master may ask in
/// each of its periods: a refusal for another domain comes without a wait.
fn sleep(caller: Caller, vector: EntryPoint) -> Result<(), SbiRet> {
    let refused = |refused: Refused| {
        refused.say_to(caller.domain);
        match refused {
            Refused::KeptAwake(_) => SbiRet::denied(),
            Refused::NoSleep(_) => SbiRet::failed(),
        }
    };
    let depth = match caller.domain.ask(Request::SystemSuspend) {
        Ok(()) => Depth::Machine,
        Err(_) => Depth::Domain,
    };
    sleep::may_sleep(caller.domain, depth).map_err(refused)?;
    let stopped = stop_domain(caller)?;
    sleep::sleep(caller.hart, vector, stopped, depth).map_err(refused)
}

/// Waits until the domain's other harts are stopped, for at most [`STOP_PATIENCE_MS`], and parks the
/// domain.
fn stop_domain(caller: Caller) -> Result<DomainStopped<'static>, SbiRet> {
    let Caller { hart, domain, time } = caller;
    let began = time.ticks();
    let waits = || {
        // A stopping hart may request a fence from this one.
        hart.serve_fence();
        core::hint::spin_loop();
        let is_late = time.milliseconds_since(began) >= STOP_PATIENCE_MS;
        !is_late && power_fail::check().is_ok()
    };
    let park = || DomainStopped::park(domain, waits);
    // SAFETY: the wait holds nothing that the OS's timer needs.
    unsafe { interruptible(0, park) }.map_err(|error| {
        domain.say(format_args!("sleep refused: {error}"));
        SbiRet::denied()
    })
}
