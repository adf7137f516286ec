//! The OS's own CSRs, and entering it.

use poorwill_hart::PageTables;

use super::csr::{self, status};
use super::{STACK_HEAD, set_thread_pointer, thread_pointer};

/// A CSR that belongs to the OS.
#[derive(Debug)]
pub(crate) struct SupervisorCsr {
    /// Its number.
    pub(crate) number: u16,
    /// Its value; `None` where the hart lacks it.
    pub(crate) read: fn() -> Option<u64>,
    /// Writes it; says whether the hart has it.
    pub(crate) write: fn(u64) -> bool,
}

macro_rules! supervisor_csrs {
    ($($number:literal,)*) => {
        &[$(SupervisorCsr {
            number: $number,
            read: csr::try_read::<$number>,
            write: |value| {
                // SAFETY: these CSRs act on S-mode and below only.
                unsafe { csr::try_write::<$number>(value) }
            },
        }),*]
    };
}

/// What a hart keeps of the OS, but for `satp` (the OS puts it back itself, and
/// expects zero) and the counters. Of `sip` only what the OS can write sticks;
/// the rest is a view of devices. `sstatus` comes first, as it opens the floating
/// point unit. An OS saves some of these itself; which ones is its own affair, so
/// all are put back.
pub(crate) static SUPERVISOR_CSRS: &[SupervisorCsr] = supervisor_csrs![
    // sstatus, sie, stvec, scounteren, senvcfg, sstateen0 to 3
    0x100, 0x104, 0x105, 0x106, 0x10a, 0x10c, 0x10d, 0x10e, 0x10f,
    // sscratch, sepc, scause, stval, sip, stimecmp, siselect, scontext
    0x140, 0x141, 0x142, 0x143, 0x144, 0x14d, 0x150, 0x5a8,
    // hstatus, hedeleg, hideleg, hie, htimedelta, hcounteren, hgeie, henvcfg
    0x600, 0x602, 0x603, 0x604, 0x605, 0x606, 0x607, 0x60a,
    // hstateen0 to 3, htval, hvip, htinst, hgatp
    0x60c, 0x60d, 0x60e, 0x60f, 0x643, 0x645, 0x64a, 0x680,
    // vsstatus, vsie, vstvec, vsscratch, vsepc, vscause, vstval, vsip
    0x200, 0x204, 0x205, 0x240, 0x241, 0x242, 0x243, 0x244,
    // vsatp, vstimecmp, vsiselect
    0x280, 0x24d, 0x250,
];

/// Where and how the OS goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    /// Physical address of its first instruction.
    pub(crate) address: u64,
    /// What it finds in a1.
    pub(crate) argument: u64,
}

unsafe extern "C" {
    fn enter_supervisor(hart_id: u64, argument: u64, stack_top: usize) -> !;
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
    let head = stack_top - STACK_HEAD;
    let hart = thread_pointer();
    // SAFETY: the head of the stack is kept free for this pointer, mepc and
    // mstatus take effect at the mret, and satp is the OS's.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<usize>(head).write(hart);
        csr::write::<{ csr::SATP }>(0);
        let cleared = status::MPP | status::MPV | status::MPRV | status::SIE | status::SPIE;
        let mstatus = csr::read::<{ csr::MSTATUS }>() & !cleared;
        csr::write::<{ csr::MSTATUS }>(mstatus | status::MPP_SUPERVISOR | status::MPIE);
        csr::write::<{ csr::MEPC }>(resume.address);
        super::fence::all();
        set_thread_pointer(hart);
        enter_supervisor(super::hart_id(), resume.argument, head)
    }
}
