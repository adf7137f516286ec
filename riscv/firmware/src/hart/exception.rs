//! Exceptions of the OS. Machine mode serves accesses to mediated registers, and returns all other
//! exceptions to the OS.

use poorwill_arch::claimed::ClaimedMemory;
use poorwill_arch::csr;
use poorwill_domain::Domain;
use poorwill_hart::emulation::{Access, Fault, redirect};

use crate::entry::TrapFrame;
use crate::hart::ThisHart;
use crate::platform::platform;

/// Serves the access fault in the frame, or returns it to the OS.
pub(crate) fn access_fault(frame: &mut TrapFrame, hart: ThisHart, domain: &Domain) {
    let fault = fault_of(frame);
    let owns = |length, address| domain.bytes(length, address, 0).is_ok();
    let executes = |address| domain.executable(address).is_ok();
    // SAFETY: a domain's memory is only the OS's; reads of its flash have no effect.
    let memory = unsafe { ClaimedMemory::new(owns, executes) };
    let access = Access::of(&fault, &frame.x, &hart.access(), &memory);
    let served = access.and_then(|access| {
        let loaded = platform().mediated.serve(&access, &memory)?;
        Some(access.complete(&mut frame.x, loaded))
    });
    match served {
        Some(length) => frame.mepc = frame.mepc.wrapping_add(length),
        None => give_back(frame, &fault, hart),
    }
}

/// Lets the OS handle the exception in the frame.
pub(crate) fn exception(frame: &mut TrapFrame, hart: ThisHart) {
    give_back(frame, &fault_of(frame), hart);
}

fn fault_of(frame: &TrapFrame) -> Fault {
    Fault {
        cause: csr::read::<{ csr::MCAUSE }>(),
        pc: frame.mepc as u64,
        status: frame.mstatus as u64,
        value: csr::read::<{ csr::MTVAL }>(),
        instruction: csr::try_read::<{ csr::MTINST }>().unwrap_or(0),
        guest_address: csr::try_read::<{ csr::MTVAL2 }>().unwrap_or(0),
        satp: csr::read::<{ csr::SATP }>(),
    }
}

/// Lets the OS handle this exception.
pub(crate) fn give_back(frame: &mut TrapFrame, fault: &Fault, hart: ThisHart) {
    let left = redirect(fault, &hart.access());
    (frame.mepc, frame.mstatus) = (left.pc as usize, left.status as usize);
}
