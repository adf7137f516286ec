//! Exceptions of the OS. Machine mode serves accesses to mediated registers, and reads of counters
//! that the hart lacks. It returns all other exceptions to the OS.

use poorwill_arch::claimed::ClaimedMemory;
use poorwill_arch::{csr, load_code};
use poorwill_domain::Domain;
use poorwill_drivers::mediated::CallerMemory;
use poorwill_hart::emulation::{
    self, Access, Counter, CounterRead, Fault, PhysicalMemory, redirect,
};

use crate::entry::TrapFrame;
use crate::hart::ThisHart;
use crate::platform::platform;

/// Serves the access fault in the frame, or returns it to the OS.
pub(crate) fn access_fault(frame: &mut TrapFrame, hart: ThisHart, domain: &Domain) {
    let fault = fault_of(frame);
    let memory = memory_of(domain);
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

/// Serves the read of a counter in the frame, or returns the illegal instruction to the OS.
pub(crate) fn illegal_instruction(frame: &mut TrapFrame, hart: ThisHart) {
    // Not by `mtval`, which may be zero; QEMU 10 leaves an earlier instruction there for `mret`.
    let bits = load_code(frame.mepc as u64).or_else(|| walk_to_instruction(frame, hart));
    match CounterRead::of(bits.unwrap_or(0), frame.mstatus as u64, &hart.access()) {
        Ok(read) => {
            let value = match read.counter {
                Counter::Cycle => csr::read::<{ csr::MCYCLE }>(),
                Counter::Time => platform().time.ticks(),
                Counter::Instructions => csr::read::<{ csr::MINSTRET }>(),
            };
            frame.mepc = frame.mepc.wrapping_add(read.complete(&mut frame.x, value));
        }
        Err(cause) => give_back_as(cause, frame, hart),
    }
}

/// For code that can be executed only, by PMP.
// This and the next function are not inlined: reads of counters come often, and need little stack.
#[inline(never)]
fn walk_to_instruction(frame: &TrapFrame, hart: ThisHart) -> Option<u32> {
    let memory = memory_of(hart.domain());
    emulation::instruction_of(&fault_of(frame), &hart.access(), &memory)
}

/// Lets the OS handle the exception in the frame with this cause.
#[inline(never)]
fn give_back_as(cause: u64, frame: &mut TrapFrame, hart: ThisHart) {
    let fault = Fault {
        cause,
        ..fault_of(frame)
    };
    give_back(frame, &fault, hart);
}

/// Lets the OS handle the exception in the frame.
pub(crate) fn exception(frame: &mut TrapFrame, hart: ThisHart) {
    give_back(frame, &fault_of(frame), hart);
}

/// The memory of the domain's OS.
pub(crate) fn memory_of(domain: &Domain) -> impl CallerMemory + PhysicalMemory {
    let owns = |length, address| domain.bytes(length, address, 0).is_ok();
    let executes = |address| domain.executable(address).is_ok();
    // SAFETY: a domain's memory is only the OS's; reads of its flash have no effect.
    unsafe { ClaimedMemory::new(owns, executes) }
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
