//! Control and status registers by number (RISC-V privileged specification,
//! chapter 2; AIA, chapter 2).

use core::arch::asm;

use crate::probe::probe;

macro_rules! numbers {
    ($($name:ident = $number:literal,)*) => {
        $(#[allow(missing_docs, reason = "the specification's own names")]
        pub const $name: u16 = $number;)*
    };
}

numbers! {
    FCSR = 0x003,
    VSTART = 0x008,
    VCSR = 0x00f,
    SSTATUS = 0x100,
    SIE = 0x104,
    SCOUNTEREN = 0x106,
    STIMECMP = 0x14d,
    SISELECT = 0x150,
    SIREG = 0x151,
    SIREG2 = 0x152,
    SIREG3 = 0x153,
    SCTRDEPTH = 0x15f,
    SATP = 0x180,
    TH_SXSTATUS = 0x5c0,
    VSISELECT = 0x250,
    VSIREG = 0x251,
    HSTATUS = 0x600,
    HGEIE = 0x607,
    MSTATUS = 0x300,
    MEDELEG = 0x302,
    MIDELEG = 0x303,
    MIE = 0x304,
    MTVEC = 0x305,
    MCOUNTEREN = 0x306,
    MENVCFG = 0x30a,
    MSTATEEN0 = 0x30c,
    MEPC = 0x341,
    MCAUSE = 0x342,
    MTVAL = 0x343,
    MIP = 0x344,
    MTINST = 0x34a,
    MTVAL2 = 0x34b,
    MISELECT = 0x350,
    MIREG = 0x351,
    MTOPEI = 0x35c,
    PMPCFG0 = 0x3a0,
    PMPADDR0 = 0x3b0,
    MSECCFG = 0x747,
    TSELECT = 0x7a0,
    TDATA1 = 0x7a1,
    TDATA2 = 0x7a2,
    TDATA3 = 0x7a3,
    TH_MXSTATUS = 0x7c0,
    MCYCLE = 0xb00,
    MINSTRET = 0xb02,
    CYCLE = 0xc00,
    TIME = 0xc01,
    INSTRET = 0xc02,
    VL = 0xc20,
    VTYPE = 0xc21,
    VLENB = 0xc22,
    MVENDORID = 0xf11,
    MARCHID = 0xf12,
    MIMPID = 0xf13,
    MHARTID = 0xf14,
}

/// Reads a CSR that every supported hart has.
#[inline]
pub fn read<const CSR: u16>() -> u64 {
    let value;
    // SAFETY: reads of the CSRs in the list above change nothing.
    unsafe { asm!("csrr {0}, {1}", out(reg) value, const CSR, options(nomem, nostack)) }
    value
}

/// Writes a CSR that every supported hart has.
///
/// # Safety
///
/// Machine mode still works with the new value.
#[inline]
pub unsafe fn write<const CSR: u16>(value: u64) {
    // SAFETY: passed on to the caller. No `nomem`: a write may change what memory is reachable.
    unsafe { asm!("csrw {1}, {0}", in(reg) value, const CSR, options(nostack)) }
}

/// Sets bits of a CSR that every supported hart has.
///
/// # Safety
///
/// As for [`write`](fn@write).
#[inline]
pub unsafe fn set<const CSR: u16>(bits: u64) {
    // SAFETY: passed on to the caller.
    unsafe { asm!("csrs {1}, {0}", in(reg) bits, const CSR, options(nostack)) }
}

/// Clears bits of a CSR that every supported hart has.
///
/// # Safety
///
/// As for [`write`](fn@write).
#[inline]
pub unsafe fn clear<const CSR: u16>(bits: u64) {
    // SAFETY: passed on to the caller.
    unsafe { asm!("csrc {1}, {0}", in(reg) bits, const CSR, options(nostack)) }
}

/// Reads a CSR that this hart may lack.
pub fn try_read<const CSR: u16>() -> Option<u64> {
    // SAFETY: reads of the CSRs in the list above change nothing.
    let (value, there) = unsafe { probe!("csrr {value}, {csr}", 0, csr = const CSR) };
    there.then_some(value)
}

/// Writes a CSR that this hart may lack; returns whether it exists.
///
/// # Safety
///
/// As for [`write`](fn@write).
pub unsafe fn try_write<const CSR: u16>(value: u64) -> bool {
    // SAFETY: passed on to the caller.
    let (_, there) = unsafe { probe!("csrw {csr}, {value}", value, csr = const CSR) };
    there
}

/// Reads the seed CSR by swapping it with zero, as Zkr demands. Only on harts that have it.
pub fn swap_seed() -> u64 {
    let value;
    // SAFETY: the CSR's only state is that of the entropy source.
    unsafe { asm!("csrrw {0}, 0x015, zero", out(reg) value, options(nomem, nostack)) }
    value
}

/// The same on a hart that may lack it, even if the tree lists Zkr.
pub fn try_swap_seed() -> Option<u64> {
    // SAFETY: the CSR's only state is that of the entropy source.
    let (value, is_there) = unsafe { probe!("csrrw {value}, 0x015, zero", 0) };
    is_there.then_some(value)
}

/// Bits of `mstatus` and `sstatus`.
pub mod status {
    /// S-mode interrupts enabled.
    pub const SIE: u64 = 1 << 1;
    /// Machine interrupts enabled.
    pub const MIE: u64 = 1 << 3;
    /// S-mode interrupts were enabled before the trap.
    pub const SPIE: u64 = 1 << 5;
    /// Machine interrupts were enabled before the trap.
    pub const MPIE: u64 = 1 << 7;
    /// Value of MPP: the trap came from S-mode.
    pub const MPP_SUPERVISOR: u64 = 1 << 11;
    /// The field for the mode that a trap came from.
    pub const MPP: u64 = 3 << 11;
    /// The field for the vector state.
    pub const VS: u64 = 3 << 9;
    /// Value of VS: the registers have their initial values.
    pub const VS_INITIAL: u64 = 1 << 9;
    /// The field for the floating-point state.
    pub const FS: u64 = 3 << 13;
    /// Value of FS: the registers have their initial values.
    pub const FS_INITIAL: u64 = 1 << 13;
    /// Loads and stores run with the privilege of MPP.
    pub const MPRV: u64 = 1 << 17;
    /// Executable pages may be read.
    pub const MXR: u64 = 1 << 19;
    /// The trap came from a guest (H extension).
    pub const MPV: u64 = 1 << 39;
    /// The trapped code expected a landing pad next (Zicfilp).
    pub const MPELP: u64 = 1 << 41;
    /// While this is set, another trap is a double trap (Smdbltrp). Traps into machine mode and
    /// resets set it. A hart without Smdbltrp lacks the bit.
    pub const MDT: u64 = 1 << 42;
}
