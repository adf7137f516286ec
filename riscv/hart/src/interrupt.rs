//! Bits of `mip`, `mie` and `mideleg` (privileged specification, 3.1.9; Sscofpmf).

/// S-mode software.
pub const SSI: u64 = 1 << 1;
/// Machine software.
pub const MSI: u64 = 1 << 3;
/// S-mode timer.
pub const STI: u64 = 1 << 5;
/// Machine timer.
pub const MTI: u64 = 1 << 7;
/// S-mode external.
pub const SEI: u64 = 1 << 9;
/// Machine external.
pub const MEI: u64 = 1 << 11;
/// Counter overflow.
pub const LCOFI: u64 = 1 << 13;

/// Those that are the OS's own, and go to it at once.
pub const OF_THE_OS: u64 = SSI | STI | SEI | LCOFI;

/// What is pending for an OS that has left some interrupts enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Its timer.
    pub timer: bool,
    /// Any other of its interrupts.
    pub other: bool,
}

impl Pending {
    /// What `mip` shows of the interrupts that the OS left enabled in `mie`.
    #[must_use]
    pub fn of(mip: u64, mie: u64) -> Self {
        let pending = mip & mie & OF_THE_OS;
        Pending {
            timer: pending & STI != 0,
            other: pending & !STI != 0,
        }
    }
}
