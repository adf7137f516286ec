//! CSRs of S-mode and of the H extension, by number, whether the hart has them or not.

use super::{fence_i, guard};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Those whose state an OS may set, but for what keeps it in control of the hart: `stvec`,
/// `satp`, `sie`, `stimecmp` and `hgatp`, and [`OF_GUESTS`].
pub(crate) const SETTABLE: [u16; 43] = [
    0x106, 0x10a, 0x10c, 0x10d, 0x10e, 0x10f, 0x120, 0x140, 0x141, 0x142, 0x143, 0x144, 0x14e,
    0x150, 0x15f, 0x181, 0x5a8, 0x600, 0x603, 0x604, 0x605, 0x606, 0x607, 0x608, 0x609, 0x60a,
    0x60c, 0x60d, 0x643, 0x645, 0x646, 0x647, 0x64a, 0x204, 0x240, 0x241, 0x242, 0x243, 0x244,
    0x24d, 0x24e, 0x250, 0x280,
];

/// Those of guests that are set with care.
pub(crate) const OF_GUESTS: [u16; 3] = [VSSTATUS, VSTVEC, HEDELEG];

/// `scounteren`
pub(crate) const SCOUNTEREN: u16 = 0x106;
/// `senvcfg`
pub(crate) const SENVCFG: u16 = 0x10a;
/// `stimecmp`
pub(crate) const STIMECMP: u16 = 0x14d;
/// `vsstatus`
pub(crate) const VSSTATUS: u16 = 0x200;
/// `vstvec`
pub(crate) const VSTVEC: u16 = 0x205;
/// `vsepc`
pub(crate) const VSEPC: u16 = 0x241;
/// `vscause`
pub(crate) const VSCAUSE: u16 = 0x242;
/// `vstval`
pub(crate) const VSTVAL: u16 = 0x243;
/// `vsatp`
pub(crate) const VSATP: u16 = 0x280;
/// `hstatus`
pub(crate) const HSTATUS: u16 = 0x600;
/// `hedeleg`
pub(crate) const HEDELEG: u16 = 0x602;
/// `htimedelta`
pub(crate) const HTIMEDELTA: u16 = 0x605;
/// `hcounteren`
pub(crate) const HCOUNTEREN: u16 = 0x606;
/// `hie`
pub(crate) const HIE: u16 = 0x604;
/// `hgeie`
pub(crate) const HGEIE: u16 = 0x607;
/// `henvcfg`
pub(crate) const HENVCFG: u16 = 0x60a;
/// `hvip`
pub(crate) const HVIP: u16 = 0x645;
/// `hgatp`
pub(crate) const HGATP: u16 = 0x680;

/// `csrr a0, NUMBER; ret`, and `csrw NUMBER, a0; ret`.
static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

const RETURN: usize = 0x8067 << 32;

/// Its value; the cause if reading it traps.
pub(crate) fn read(number: u16) -> Result<usize, usize> {
    call(0, 0x2573 | usize::from(number) << 20, 0)
}

/// Writes it; the cause if that traps.
pub(crate) fn write(number: u16, value: usize) -> Result<(), usize> {
    call(1, 0x5_1073 | usize::from(number) << 20, value).map(|_| ())
}

fn call(place: usize, instruction: usize, argument: usize) -> Result<usize, usize> {
    let code = &CODE[place];
    if code.swap(instruction | RETURN, Ordering::Relaxed) != instruction | RETURN {
        fence_i();
    }
    guard::call(code.as_ptr().expose_provenance(), argument)
}
