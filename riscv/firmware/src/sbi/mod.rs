//! The Supervisor Binary Interface, version 3.0: one typed handler for each
//! extension, called with the arguments in their specified widths.
//!
//! The `rustsbi` crate's dispatch is not used: it fixes the specification
//! version and the implementation ID that BASE reports.

mod base;
mod console;
mod hsm;
mod ipi;
mod reset;
mod rfence;
mod suspend;
mod timer;

use poorwill_arch::Time;
use poorwill_domain::{ClaimError, Domain, HartSelection};
use sbi_spec::binary::SbiRet;
use sbi_spec::{base as spec_base, dbcn, hsm as spec_hsm, rfnc, spi, srst, susp, time};

use crate::entry::TrapFrame;
use crate::hart::{self, Hart, ThisHart};

/// Who calls, and what a call is served with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The hart that runs this.
    pub(crate) hart: ThisHart,
    /// Its domain, by which what the caller claims is checked.
    pub(crate) domain: &'static Domain,
    /// By which waits end.
    pub(crate) time: &'static Time,
}

/// A call: extension and function IDs, the arguments, and who makes it.
#[derive(Clone, Copy, Debug)]
struct Call {
    caller: Caller,
    extension: usize,
    function: usize,
    arguments: [usize; 6],
}

/// Serves the call in the frame; the program counter is behind it already.
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
    let answer = dispatch(call);
    frame.x[10] = answer.error;
    frame.x[11] = answer.value;
}

/// Whether the extension is there for that domain (BASE, `sbi_probe_extension`).
fn is_available(extension: usize, domain: &Domain) -> bool {
    match extension {
        srst::EID_SRST => reset::is_available(domain),
        spec_base::EID_BASE
        | time::EID_TIME
        | spi::EID_SPI
        | rfnc::EID_RFNC
        | spec_hsm::EID_HSM
        | dbcn::EID_DBCN
        | susp::EID_SUSP => true,
        _ => false,
    }
}

/// The extension that panics, in builds for tests: the first of the firmware's own.
#[cfg(feature = "panic-call")]
const PANIC: usize = 0x0a00_0000;

fn dispatch(call: Call) -> SbiRet {
    #[cfg(feature = "panic-call")]
    assert!(call.extension != PANIC, "a build for tests: asked to panic");
    if !is_available(call.extension, call.caller.domain) {
        return SbiRet::not_supported();
    }
    match call.extension {
        spec_base::EID_BASE => base::call(call),
        time::EID_TIME => timer::call(call),
        spi::EID_SPI => ipi::call(call),
        rfnc::EID_RFNC => rfence::call(call),
        spec_hsm::EID_HSM => hsm::call(call),
        srst::EID_SRST => reset::call(call),
        dbcn::EID_DBCN => console::call(call),
        susp::EID_SUSP => suspend::call(call),
        _ => SbiRet::not_supported(),
    }
}

/// What a call answers to a claim that is not so (SBI 3.0: the tables of errors of
/// each function).
fn refusal(error: ClaimError) -> SbiRet {
    match error {
        ClaimError::Code(_) | ClaimError::Fence { .. } => SbiRet::invalid_address(),
        ClaimError::Bytes { .. } | ClaimError::Hart(_) | ClaimError::Harts { .. } => {
            SbiRet::invalid_param()
        }
        ClaimError::Request(_) => SbiRet::denied(),
    }
}

/// The harts of a selection.
fn harts(selection: HartSelection<'_>) -> impl Iterator<Item = &'static Hart> {
    hart::all()
        .iter()
        .filter(move |hart| selection.contains(hart.id()))
}
