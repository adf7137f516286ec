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

use poorwill_memory::MemoryMap;
use sbi_spec::binary::{HartMask, SbiRet};
use sbi_spec::{base as spec_base, dbcn, hsm as spec_hsm, rfnc, spi, srst, susp, time};

use crate::arch::TrapFrame;
use crate::hart::{self, Hart};

/// A call: extension and function IDs, and the arguments.
#[derive(Clone, Copy, Debug)]
struct Call {
    extension: usize,
    function: usize,
    arguments: [usize; 6],
}

/// Serves the call in the frame; the program counter is behind it already.
pub(crate) fn call(frame: &mut TrapFrame) {
    let [a0, a1, a2, a3, a4, a5, function, extension] = frame.x[10..18] else {
        unreachable!("eight registers of a slice of eight");
    };
    let call = Call {
        extension,
        function,
        arguments: [a0, a1, a2, a3, a4, a5],
    };
    let answer = dispatch(call);
    frame.x[10] = answer.error;
    frame.x[11] = answer.value;
}

/// Whether the extension is there (BASE, `sbi_probe_extension`).
fn is_available(extension: usize) -> bool {
    match extension {
        srst::EID_SRST => reset::is_available(),
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

fn dispatch(call: Call) -> SbiRet {
    if !is_available(call.extension) {
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

/// The harts that a mask names.
///
/// # Errors
///
/// INVALID_PARAM when it names one that is not there (SBI 3.0, 3.1).
fn harts(mask: usize, base: usize) -> Result<impl Iterator<Item = &'static Hart>, SbiRet> {
    let named = HartMask::from_mask_base(mask, base);
    let all = base == named.ignore_mask();
    let found = move || {
        let harts = hart::all().iter();
        harts.filter(move |hart| all || named.has_bit(hart.id() as usize))
    };
    if !all && found().count() != mask.count_ones() as usize {
        return Err(SbiRet::invalid_param());
    }
    Ok(found())
}

/// An address that the OS passed in as a place to execute: a claim until it is
/// found to be OS memory and aligned for an instruction (IALIGN is 16).
fn executable(memory: &MemoryMap, address: usize) -> Option<u64> {
    let address = address as u64;
    (address.is_multiple_of(2) && memory.contains(address, 2)).then_some(address)
}
