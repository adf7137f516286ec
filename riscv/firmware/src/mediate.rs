//! Access faults of the OS: accesses to mediated registers are made for it, and all
//! others go to it.

use poorwill_arch::claimed::ClaimedMemory;
use poorwill_arch::csr;
use poorwill_domain::Domain;
use poorwill_hart::emulation::{Access, Fault, redirect};

use crate::entry::TrapFrame;
use crate::hart::ThisHart;
use crate::platform::platform;

/// Serves the fault in the frame.
pub(crate) fn access_fault(frame: &mut TrapFrame, hart: ThisHart, domain: &Domain) {
    let fault = Fault {
        cause: csr::read::<{ csr::MCAUSE }>(),
        pc: frame.mepc as u64,
        status: frame.mstatus as u64,
        value: csr::read::<{ csr::MTVAL }>(),
        instruction: csr::try_read::<{ csr::MTINST }>().unwrap_or(0),
        satp: csr::read::<{ csr::SATP }>(),
    };
    let owns = |length, address| domain.bytes(length, address, 0).is_ok();
    let executes = |address| domain.executable(address).is_ok();
    // SAFETY: a domain's memory is the OS's alone, and reading its flash changes nothing.
    let memory = unsafe { ClaimedMemory::new(owns, executes) };
    let access = Access::of(&fault, &frame.x, &hart.access(), &memory);
    let served = access.and_then(|access| {
        let loaded = platform().mediated.serve(&access, &memory)?;
        Some(access.complete(&mut frame.x, loaded))
    });
    if let Some(length) = served {
        frame.mepc = frame.mepc.wrapping_add(length);
        return;
    }
    let left = redirect(&fault, &hart.access());
    (frame.mepc, frame.mstatus) = (left.pc as usize, left.status as usize);
}
