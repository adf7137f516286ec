//! Entering the OS.

use poorwill_arch::csr::{self, status};
use poorwill_arch::{fence, hart_id, irqs_off, set_thread_pointer, thread_pointer};
use poorwill_hart::{PageTables, Resume};

use super::{STACK_HEAD, TrapFrame};

unsafe extern "C" {
    fn enter_supervisor(hart_id: u64, argument: u64, stack_top: usize) -> !;
    fn return_from_frame(frame: *const TrapFrame, stack_top: usize) -> !;
}

/// The page tables that the OS uses on this hart; `None` when it uses none, or
/// in a mode unknown here. Only S-mode can change them: a program of the OS's
/// cannot.
pub(crate) fn page_tables() -> Option<PageTables> {
    PageTables::of_satp(csr::read::<{ csr::SATP }>())
}

/// Enters the OS in the state that HSM and SUSP promise (SBI 3.0, tables 9.1 and
/// 14.2): satp and sstatus.SIE zero, a0 the hart ID, a1 the argument.
///
/// # Safety
///
/// `stack_top` is the top of this hart's stack, and `resume.address` is the
/// OS's to execute.
pub(crate) unsafe fn enter(resume: Resume, stack_top: usize) -> ! {
    irqs_off::end();
    let head = stack_top - STACK_HEAD;
    let hart = thread_pointer();
    // SAFETY: the head of the stack is kept free for this pointer, mepc and
    // mstatus take effect at the mret, and satp is the OS's.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<usize>(head).write(hart);
        csr::write::<{ csr::SATP }>(0);
        csr::write::<{ csr::MSTATUS }>(status_at_entry());
        csr::write::<{ csr::MEPC }>(resume.address);
        fence::all();
        set_thread_pointer(hart);
        enter_supervisor(hart_id(), resume.argument, head)
    }
}

/// `mstatus` at the entry of the OS.
fn status_at_entry() -> u64 {
    let of_traps = status::MPP | status::MPV | status::MPRV | status::MPELP;
    let cleared = of_traps | status::SIE | status::SPIE;
    let mstatus = csr::read::<{ csr::MSTATUS }>() & !cleared;
    mstatus | status::MPP_SUPERVISOR | status::MPIE
}

/// The frame of a trap that has interrupted the OS on this hart just as it would have been
/// [entered](enter); the hart is in that state then.
pub(crate) fn frame_at(resume: Resume) -> TrapFrame {
    // SAFETY: machine mode does not use it.
    unsafe { csr::write::<{ csr::SATP }>(0) };
    let mut x = [0; 32];
    x[10] = hart_id() as usize;
    x[11] = resume.argument as usize;
    TrapFrame {
        x,
        mepc: resume.address as usize,
        mstatus: status_at_entry() as usize,
    }
}

/// Goes on in the OS where a trap has left it.
///
/// # Safety
///
/// `stack_top` is the top of this hart's stack, of which only the caller's part is in use,
/// and the frame is of the OS on this hart.
pub(crate) unsafe fn return_to(frame: &TrapFrame, stack_top: usize) -> ! {
    let head = stack_top - STACK_HEAD;
    // SAFETY: as `enter`. The frame is read where it is: it may lie where a trap would put
    // it, in part, and so may what this call needs.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<usize>(head).write(thread_pointer());
        fence::all();
        return_from_frame(frame, head)
    }
}
