//! SUSP (SBI 3.0, chapter 13).

use poorwill_arch::{Time, interruptible};
use poorwill_domain::Request;
use poorwill_memory::EntryPoint;
use sbi_spec::binary::SbiRet;
use sbi_spec::susp::SUSPEND;

use super::{Call, Caller};
use crate::cut;
use crate::entry::stack;
use crate::hart::{self, Hart, OthersStopped, ThisHart};
use crate::platform::console::say;
use crate::platform::domain;
use crate::platform::power_fail;
use crate::report;
use crate::sleep;

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
    let Caller { hart, domain, time } = caller;
    if kind != SUSPEND_TO_RAM {
        say!("sleep refused: unknown sleep type {kind:#x}");
        // Reserved or platform-specific; Poorwill defines none.
        return SbiRet::invalid_param();
    }
    if let Err(error) = domain.ask(Request::SystemSuspend) {
        say!("sleep refused: {error}");
        return super::refusal(error);
    }
    if domain::is_partitioned() {
        say!("sleep refused: the machine has domains");
        return SbiRet::denied();
    }
    let address = match domain.executable(address) {
        Ok(address) => address.get(),
        Err(error) => {
            say!("sleep refused: the OS may not execute at the resume address {address:#x}");
            return super::refusal(error);
        }
    };
    // SAFETY: the wait holds nothing that the OS's timer needs.
    let stopped = match unsafe { interruptible(0, || wait_for_others(hart, time)) } {
        Ok(stopped) => stopped,
        Err(running) => {
            say!("sleep refused: hart {} is not stopped", running.id());
            return SbiRet::denied();
        }
    };
    let vector = EntryPoint { address, argument };
    match stack::deep(|| sleep::sleep(vector, &stopped)) {
        // SAFETY: the address was checked, and this hart's call chain ends here.
        Ok(()) => unsafe { cut::enter_or_stop(hart, vector) },
        Err(error) => {
            say!("sleep refused: {error}");
            // If the power fails, memory may be sealed, and time is short.
            if !power_fail::noticed() {
                report::tell_log();
            }
            SbiRet::failed()
        }
    }
}

/// Waits until all harts but `own`, the calling one, are stopped.
///
/// # Errors
///
/// A hart that is not stopped after [`STOP_PATIENCE_MS`].
fn wait_for_others(own: ThisHart, time: &Time) -> Result<OthersStopped, &'static Hart> {
    let began = time.ticks();
    loop {
        let stopped = hart::others_stopped();
        let is_late = time.milliseconds_since(began) >= STOP_PATIENCE_MS;
        if stopped.is_ok() || is_late || power_fail::check().is_err() {
            return stopped;
        }
        // A stopping hart may request a fence from this one.
        own.serve_fence();
        core::hint::spin_loop();
    }
}
