//! SUSP (SBI 3.0, chapter 13).

use poorwill_arch::{Time, interruptible};
use poorwill_domain::Request;
use poorwill_hart::Resume;
use sbi_spec::binary::SbiRet;
use sbi_spec::susp::SUSPEND;

use super::{Call, Caller};
use crate::cut;
use crate::entry::stack;
use crate::hart::{self, Hart, OthersStopped, ThisHart};
use crate::platform::console::say;
use crate::platform::power_fail;
use crate::report;
use crate::sleep;

/// `SUSPEND_TO_RAM`, the only sleep type there is.
const SUSPEND_TO_RAM: u32 = 0;

/// How long the OS's other harts may still be on their way to a stop. Linux takes a
/// CPU for dead before that CPU has called HSM, asks for its state once, warns, and
/// goes on to sleep; a virtual machine's hart can stand still just there.
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
    let Caller { hart, domain, time } = caller;
    if kind != SUSPEND_TO_RAM {
        say!("sleep refused: sleep type {kind:#x} is not known");
        // Reserved, or a platform's own, of which we have none.
        return SbiRet::invalid_param();
    }
    if let Err(error) = domain.ask(Request::SystemSuspend) {
        say!("sleep refused: {error}");
        return super::refusal(error);
    }
    let address = match domain.executable(address) {
        Ok(address) => address.get(),
        Err(error) => {
            say!("sleep refused: resume address {address:#x} is not the OS's to execute");
            return super::refusal(error);
        }
    };
    // SAFETY: who waits for others keeps nothing from the OS's timer.
    let stopped = match unsafe { interruptible(0, || wait_for_others(hart, time)) } {
        Ok(stopped) => stopped,
        Err(running) => {
            say!("sleep refused: hart {} is not stopped", running.id());
            return SbiRet::denied();
        }
    };
    let resume = Resume { address, argument };
    match stack::deep(|| sleep::sleep(resume, &stopped)) {
        // SAFETY: the address was checked, and this hart's call chain ends here.
        Ok(()) => unsafe { cut::enter_or_stop(hart, resume) },
        Err(error) => {
            say!("sleep refused: {error}");
            // Where the power fails, memory may be sealed, and time is short.
            if !power_fail::is_failing() {
                report::tell_log();
            }
            SbiRet::failed()
        }
    }
}

/// Waits until all harts but this one, `own`, are stopped.
///
/// # Errors
///
/// One that is not when [`STOP_PATIENCE_MS`] are over.
fn wait_for_others(own: ThisHart, time: &Time) -> Result<OthersStopped, &'static Hart> {
    let began = time.ticks();
    loop {
        let stopped = hart::others_stopped();
        let is_late = time.milliseconds_since(began) >= STOP_PATIENCE_MS;
        if stopped.is_ok() || is_late || !power_fail::goes_on() {
            return stopped;
        }
        // On its way the hart may ask this one for a fence.
        own.serve_fence();
        core::hint::spin_loop();
    }
}
