//! The SUSP call, as in Linux: the caller's registers are kept in memory, and the wake vector
//! restores them.

use crate::read_csr;
use core::{arch::naked_asm, mem::offset_of};
use sbi_spec::{binary::SbiRet, susp};

/// The callee-saved registers, and what the wake vector found.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Context {
    /// ra, sp, gp, tp, s0 to s11.
    kept: [usize; 16],
    /// What the wake vector found before it changed anything.
    pub(crate) found: Found,
}

/// The hart as the firmware handed it to the wake vector.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Found {
    /// a0, which the specification wants to be the hart's id.
    pub(crate) a0: usize,
    /// a1, which the specification wants to be the call's opaque argument.
    pub(crate) a1: usize,
    /// `sstatus`
    pub(crate) sstatus: usize,
    /// `satp`
    pub(crate) satp: usize,
    /// `sie`
    pub(crate) sie: usize,
    /// `stvec`
    pub(crate) stvec: usize,
    /// `sscratch`
    pub(crate) sscratch: usize,
    /// `sepc`
    pub(crate) sepc: usize,
    /// `scause`
    pub(crate) scause: usize,
    /// `stval`
    pub(crate) stval: usize,
    /// `scounteren`
    pub(crate) scounteren: usize,
    /// `time`
    pub(crate) time: usize,
}

/// How a SUSP call ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// The call returned: the machine did not sleep.
    Returned(SbiRet),
    /// The machine slept, and the wake vector found this.
    Woke(Found),
}

/// Calls SUSP with the wake vector below. `context` must stay where it is.
pub(crate) fn suspend(sleep_type: usize, context: &mut Context) -> Outcome {
    let opaque = core::ptr::from_mut(context);
    // SAFETY: the call returns either at once, or through the wake vector
    // with every callee-saved register and memory as they were.
    let answer = unsafe { suspend_raw(sleep_type, wake_vector(), opaque) };
    // SAFETY: `context` is borrowed for all of this function; the wake
    // vector wrote to it behind the compiler's back, hence volatile.
    let found = unsafe { core::ptr::read_volatile(&raw const (*opaque).found) };
    if answer.error == WOKE {
        Outcome::Woke(found)
    } else {
        Outcome::Returned(answer)
    }
}

/// Calls SUSP with any arguments, which must not be valid ones.
pub(crate) fn suspend_invalid(sleep_type: usize, address: usize) -> SbiRet {
    // SAFETY: the caller says that no sleep can come of it.
    unsafe { sbi_rt::raw::sbi_call_3(susp::EID_SUSP, susp::SUSPEND, sleep_type, address, 0) }
}

/// The wake vector's address.
pub(crate) fn wake_vector() -> usize {
    wake as *const () as usize
}

/// In `SbiRet::error`, where the specification has only small negative values.
const WOKE: usize = 0x57_4f_4b_45;

/// Stores or loads [`Context::kept`], to or from where a register points.
macro_rules! kept_registers {
    ($access:literal, $base:literal) => {
        kept_registers!($access, $base,
            "ra" 0, "sp" 8, "gp" 16, "tp" 24, "s0" 32, "s1" 40, "s2" 48, "s3" 56, "s4" 64,
            "s5" 72, "s6" 80, "s7" 88, "s8" 96, "s9" 104, "s10" 112, "s11" 120)
    };
    ($access:literal, $base:literal, $($register:literal $offset:literal),+) => {
        concat!($($access, " ", $register, ", ", $offset, "(", $base, ")\n"),+)
    };
}

#[unsafe(naked)]
unsafe extern "C" fn suspend_raw(
    sleep_type: usize,
    vector: usize,
    context: *mut Context,
) -> SbiRet {
    naked_asm!(
        kept_registers!("sd", "a2"),
        "li a7, {extension}",
        "li a6, {function}",
        "ecall",
        "ret",
        extension = const susp::EID_SUSP,
        function = const susp::SUSPEND,
    )
}

/// Where the machine wakes: a1 must be the context, as only it leads back.
#[unsafe(naked)]
unsafe extern "C" fn wake() -> ! {
    naked_asm!(
        "sd a0, {a0}(a1)",
        "sd a1, {a1}(a1)",
        "csrr t0, sstatus",    "sd t0, {sstatus}(a1)",
        "csrr t0, satp",       "sd t0, {satp}(a1)",
        "csrr t0, sie",        "sd t0, {sie}(a1)",
        "csrr t0, stvec",      "sd t0, {stvec}(a1)",
        "csrr t0, sscratch",   "sd t0, {sscratch}(a1)",
        "csrr t0, sepc",       "sd t0, {sepc}(a1)",
        "csrr t0, scause",     "sd t0, {scause}(a1)",
        "csrr t0, stval",      "sd t0, {stval}(a1)",
        "csrr t0, scounteren", "sd t0, {scounteren}(a1)",
        "csrr t0, time",       "sd t0, {time}(a1)",
        kept_registers!("ld", "a1"),
        "li a0, {woke}",
        "ret",
        a0 = const offset_of!(Context, found.a0),
        a1 = const offset_of!(Context, found.a1),
        sstatus = const offset_of!(Context, found.sstatus),
        satp = const offset_of!(Context, found.satp),
        sie = const offset_of!(Context, found.sie),
        stvec = const offset_of!(Context, found.stvec),
        sscratch = const offset_of!(Context, found.sscratch),
        sepc = const offset_of!(Context, found.sepc),
        scause = const offset_of!(Context, found.scause),
        stval = const offset_of!(Context, found.stval),
        scounteren = const offset_of!(Context, found.scounteren),
        time = const offset_of!(Context, found.time),
        woke = const WOKE,
    )
}

/// The CSRs that a sleep must bring back, as they are now.
pub(crate) fn csrs_now() -> Found {
    Found {
        a0: 0,
        a1: 0,
        sstatus: read_csr!("sstatus"),
        satp: read_csr!("satp"),
        sie: read_csr!("sie"),
        stvec: read_csr!("stvec"),
        sscratch: read_csr!("sscratch"),
        sepc: read_csr!("sepc"),
        scause: read_csr!("scause"),
        stval: read_csr!("stval"),
        scounteren: read_csr!("scounteren"),
        time: read_csr!("time"),
    }
}
