//! Entry into the OS.

use poorwill_arch::csr::{self, status};
use poorwill_arch::{fence, hart_id, irqs_off, set_thread_pointer, thread_pointer};
use poorwill_devicetree::NextMode;
use poorwill_hart::emulation::cause;
use poorwill_memory::EntryPoint;

use super::{STACK_HEAD, TrapFrame};

unsafe extern "C" {
    fn enter_supervisor(hart_id: u64, argument: u64, stack_top: usize) -> !;
    fn return_from_frame(frame: *const TrapFrame, stack_top: usize) -> !;
    fn handle_from_frame(frame: *const TrapFrame, stack_top: usize) -> !;
}

/// Enters the OS, mostly in S-mode, in the state that HSM and SUSP define (SBI 3.0, tables 9.1 and
/// 14.2): satp and sstatus.SIE zero, a0 the hart ID, a1 the argument.
///
/// # Safety
///
/// `stack_top` is the top of this hart's stack, and the OS may execute at `point.address`.
pub(crate) unsafe fn enter(point: EntryPoint, mode: NextMode, stack_top: usize) -> ! {
    irqs_off::end();
    let head = stack_top - STACK_HEAD;
    let hart = thread_pointer();
    let status = match mode {
        NextMode::Supervisor => status_at_entry(),
        NextMode::User => status_at_entry() & !status::MPP,
    };
    // SAFETY: the head of the stack is reserved for this pointer, mepc and mstatus take effect at
    // the mret, and satp is the OS's.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<usize>(head).write(hart);
        csr::write::<{ csr::SATP }>(0);
        csr::write::<{ csr::MSTATUS }>(status);
        csr::write::<{ csr::MEPC }>(point.address);
        fence::all();
        set_thread_pointer(hart);
        enter_supervisor(hart_id(), point.argument, head)
    }
}

fn status_at_entry() -> u64 {
    let of_traps = status::MPP | status::MPV | status::MPRV | status::MPELP;
    let cleared = of_traps | status::SIE | status::SPIE;
    let mstatus = csr::read::<{ csr::MSTATUS }>() & !cleared;
    mstatus | status::MPP_SUPERVISOR | status::MPIE
}

/// The frame of a trap just before the OS's first instruction, as if [`enter`] had run. Sets `satp`
/// to zero, as `enter` does.
pub(crate) fn frame_at(point: EntryPoint) -> TrapFrame {
    // SAFETY: machine mode does not use satp.
    unsafe { csr::write::<{ csr::SATP }>(0) };
    let mut x = [0; 32];
    x[10] = hart_id() as usize;
    x[11] = point.argument as usize;
    TrapFrame {
        x,
        mepc: point.address as usize,
        mstatus: status_at_entry() as usize,
    }
}

/// Continues the OS where a trap has interrupted it.
///
/// # Safety
///
/// `stack_top` is the top of this hart's stack, of which only the caller's part is in use. The
/// frame is of the OS on this hart.
pub(crate) unsafe fn return_to(frame: &TrapFrame, stack_top: usize) -> ! {
    let head = stack_top - STACK_HEAD;
    // SAFETY: as `enter`. The frame is read in place: it may overlap the place of a trap's frame,
    // and this call's own data may, too.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<usize>(head).write(thread_pointer());
        fence::all();
        return_from_frame(frame, head)
    }
}

/// Handles an SBI call of the OS as if the calling hart's OS had made it now. The frame's program
/// counter is at the call.
///
/// # Safety
///
/// As for [`return_to`].
pub(crate) unsafe fn call_from(frame: &TrapFrame, stack_top: usize) -> ! {
    let head = stack_top - STACK_HEAD;
    // SAFETY: as `return_to`. The frame is moved up to the place of a trap's frame.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<usize>(head).write(thread_pointer());
        csr::write::<{ csr::MCAUSE }>(cause::SUPERVISOR_CALL);
        handle_from_frame(frame, head)
    }
}
