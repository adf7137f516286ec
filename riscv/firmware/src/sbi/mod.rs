//! The Supervisor Binary Interface, version 3.0: a typed handler for each extension, called with
//! arguments in their specified widths.
//!
//! The `rustsbi` crate's dispatch is not used: it fixes the specification version and the
//! implementation ID that BASE reports.

mod base;
mod call;
pub(crate) mod console;
mod hsm;
mod ipi;
mod legacy;
mod reset;
mod rfence;
mod suspend;
mod timer;

use poorwill_arch::{LoadFault, csr};
use poorwill_hart::emulation::Fault;
use sbi_spec::binary::SbiRet;
use sbi_spec::{base as spec_base, dbcn, hsm as spec_hsm, rfnc, spi, srst, susp, time};

use crate::entry::TrapFrame;
use crate::hart::ThisHart;
use crate::hart::exception;
use call::Call;
pub(crate) use call::{CALL_BYTES, Caller};

/// Serves the call in the frame, whose program counter is past it already.
pub(crate) fn call(frame: &mut TrapFrame, caller: Caller) {
    let [a0, a1, a2, a3, a4, a5, function, extension] = frame.x[10..18] else {
        unreachable!("eight registers of a slice of eight");
    };
    let call = Call {
        caller,
        extension,
        function,
        arguments: [a0, a1, a2, a3, a4, a5],
    };
    match dispatch(call) {
        Ok(Answer::Both(answer)) => {
            frame.x[10] = answer.error;
            frame.x[11] = answer.value;
        }
        Ok(Answer::First(value)) => frame.x[10] = value,
        Err(fault) => fault_in_caller(frame, fault, caller.hart),
    }
}

enum Answer {
    /// Values of a0 and a1.
    Both(SbiRet),
    /// Value of a0 only: a legacy call.
    First(usize),
}

/// Raises the fault of a load for the caller, at its call (SBI 3.0, chapter 5).
fn fault_in_caller(frame: &mut TrapFrame, fault: LoadFault, hart: ThisHart) {
    let fault = Fault {
        cause: fault.cause,
        pc: frame.mepc.wrapping_sub(CALL_BYTES) as u64,
        status: frame.mstatus as u64,
        value: fault.value,
        // The CSRs of this trap belong to the firmware's load, not to the OS's.
        instruction: 0,
        guest_address: 0,
        satp: csr::read::<{ csr::SATP }>(),
    };
    exception::give_back(frame, &fault, hart);
}

/// In builds for tests: the extension that panics, as after a trap with the cause in a0. It is the
/// first of the firmware-specific ones.
#[cfg(feature = "panic-call")]
const PANIC: usize = 0x0a00_0000;

fn dispatch(call: Call) -> Result<Answer, LoadFault> {
    #[cfg(feature = "panic-call")]
    if call.extension == PANIC {
        // SAFETY: only the panic's report reads it.
        unsafe { csr::write::<{ csr::MCAUSE }>(call.arguments[0] as u64) };
        panic!("a build for tests: asked to panic");
    }
    let is_there = base::is_available(call.extension, call.caller.domain);
    if legacy::EXTENSIONS.contains(&call.extension) {
        let answer = match is_there {
            true => legacy::call(call)?,
            false => SbiRet::not_supported().error,
        };
        return Ok(Answer::First(answer));
    }
    if !is_there {
        return Ok(Answer::Both(SbiRet::not_supported()));
    }
    Ok(Answer::Both(match call.extension {
        spec_base::EID_BASE => base::call(call),
        time::EID_TIME => timer::call(call),
        spi::EID_SPI => ipi::call(call),
        rfnc::EID_RFNC => rfence::call(call),
        spec_hsm::EID_HSM => hsm::call(call),
        srst::EID_SRST => reset::call(call),
        dbcn::EID_DBCN => console::call(call),
        susp::EID_SUSP => suspend::call(call),
        _ => SbiRet::not_supported(),
    }))
}
