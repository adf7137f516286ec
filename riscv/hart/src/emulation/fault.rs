/// Exception codes (privileged specification, table 3.6).
pub mod cause {
    /// A fetch faulted.
    pub const FETCH_ACCESS: u64 = 1;
    /// An instruction is illegal.
    pub const ILLEGAL_INSTRUCTION: u64 = 2;
    /// A breakpoint.
    pub const BREAKPOINT: u64 = 3;
    /// A load faulted.
    pub const LOAD_ACCESS: u64 = 5;
    /// A store or an AMO faulted.
    pub const STORE_ACCESS: u64 = 7;
    /// A program made a call.
    pub const USER_CALL: u64 = 8;
    /// S-mode made an SBI call.
    pub const SUPERVISOR_CALL: u64 = 9;
    /// The page tables do not allow a fetch.
    pub const FETCH_PAGE: u64 = 12;
    /// The same of a load.
    pub const LOAD_PAGE: u64 = 13;
    /// The same of a store or an AMO.
    pub const STORE_PAGE: u64 = 15;
    /// S-mode trapped during a trap (Ssdbltrp).
    pub const DOUBLE_TRAP: u64 = 16;
    /// Memory has an error that cannot be corrected.
    pub const HARDWARE_ERROR: u64 = 19;
    /// A guest may not execute an instruction (H extension).
    pub const VIRTUAL_INSTRUCTION: u64 = 22;
    /// In `mcause`: the trap is an interrupt; the other bits are its number.
    pub const INTERRUPT: u64 = 1 << 63;
}

/// Bits of `mstatus` and `sstatus` (privileged specification, 3.1.6; H extension, 18.4.1; Zicfilp).
pub mod status {
    /// S-mode's interrupts are on.
    pub const SIE: u64 = 1 << 1;
    /// They were on before the trap.
    pub const SPIE: u64 = 1 << 5;
    /// The trap came from S-mode.
    pub const SPP: u64 = 1 << 8;
    /// The field for the vector unit.
    pub const VS: u64 = 3 << 9;
    /// The field for the floating-point unit.
    pub const FS: u64 = 3 << 13;
    /// FS or VS is Dirty.
    pub const SD: u64 = 1 << 63;
    /// Bits that `sstatus` shows, without SD: SIE, SPIE, UBE, SPP, VS, FS, XS, SUM, MXR, SPELP, SDT
    /// and UXL.
    pub const OF_SUPERVISOR: u64 =
        SIE | SPIE | 1 << 6 | SPP | VS | FS | 3 << 15 | SUM | MXR | SPELP | 1 << 24 | 3 << 32;
    pub(crate) const MPP: u64 = 3 << 11;
    pub(crate) const MPP_SUPERVISOR: u64 = 1 << 11;
    /// S-mode may access programs' pages.
    pub const SUM: u64 = 1 << 18;
    /// Executable pages may be read.
    pub const MXR: u64 = 1 << 19;
    pub(crate) const SPELP: u64 = 1 << 23;
    pub(crate) const GVA: u64 = 1 << 38;
    pub(crate) const MPV: u64 = 1 << 39;
    pub(crate) const MPELP: u64 = 1 << 41;

    /// Returns whether the trap came from S-mode or VS-mode, not from U-mode or VU-mode.
    pub(crate) fn is_supervisor(status: u64) -> bool {
        status & MPP != 0
    }

    pub(crate) fn is_guest(status: u64) -> bool {
        status & MPV != 0
    }

    /// Returns whether U-mode has 64-bit registers and little-endian data, by `mstatus` or
    /// `vsstatus` (UXL, UBE).
    pub(crate) fn is_user_ordinary(status: u64) -> bool {
        !is_user_narrow(status) && status & 1 << 6 == 0
    }

    /// The same of S-mode, by `mstatus` (SXL, SBE).
    pub(crate) fn is_supervisor_ordinary(status: u64) -> bool {
        !is_supervisor_narrow(status) && status & 1 << 36 == 0
    }

    /// The same of VS-mode, by `hstatus` (VSXL, VSBE).
    pub(crate) fn is_guest_ordinary(hstatus: u64) -> bool {
        !is_guest_narrow(hstatus) && hstatus & 1 << 5 == 0
    }

    /// Returns whether U-mode has 32-bit registers, by `mstatus` or `vsstatus` (UXL).
    pub(crate) fn is_user_narrow(status: u64) -> bool {
        status >> 32 & 3 == NARROW
    }

    /// The same of S-mode, by `mstatus` (SXL).
    pub(crate) fn is_supervisor_narrow(status: u64) -> bool {
        status >> 34 & 3 == NARROW
    }

    /// The same of VS-mode, by `hstatus` (VSXL).
    pub(crate) fn is_guest_narrow(hstatus: u64) -> bool {
        hstatus >> 32 & 3 == NARROW
    }

    /// Registers of 32 bits.
    const NARROW: u64 = 1;
}

/// An exception of the OS, with the CSRs after the trap into machine mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `mcause`.
    pub cause: u64,
    /// `mepc`: address of the instruction.
    pub pc: u64,
    /// `mstatus`.
    pub status: u64,
    /// `mtval`: the address that faulted, or zero.
    pub value: u64,
    /// `mtinst`: the transformed instruction, or zero; zero without H.
    pub instruction: u64,
    /// `mtval2`: the guest's physical address, shifted right by two bits, or zero; zero without H.
    pub guest_address: u64,
    /// `satp`.
    pub satp: u64,
}
