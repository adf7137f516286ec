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

/// The OS's own interrupts, which are delegated to it.
pub const OF_THE_OS: u64 = SSI | STI | SEI | LCOFI;

/// Pending interrupts of the OS that it has left enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The OS's timer.
    pub timer: bool,
    /// Another interrupt of the OS.
    pub other: bool,
}

impl Pending {
    /// From `mip`, and `mie` as the OS left it.
    #[must_use]
    pub fn of(mip: u64, mie: u64) -> Self {
        let pending = mip & mie & OF_THE_OS;
        Pending {
            timer: pending & STI != 0,
            other: pending & !STI != 0,
        }
    }
}
