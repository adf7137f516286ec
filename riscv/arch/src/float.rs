//! Floating-point registers.

use core::arch::asm;

use poorwill_hart::FloatRegisters;

use crate::csr::{self, status};
use crate::probe::probe;
use crate::unit::opened;

/// Width of a register in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// 32: F without D.
    Single,
    /// 64: D.
    Double,
}

/// Moves all registers between the unit and an array of words.
macro_rules! for_each_register {
    ($extension:literal, $instruction:literal, $words:expr, $($option:ident),*) => {
        asm!(
            ".option push",
            concat!(".option arch, +", $extension),
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            concat!($instruction, " f\\n, 8*\\n({0})"),
            ".endr",
            ".option pop",
            in(reg) $words,
            options($($option),*),
        )
    };
}

/// Returns the width of the registers; `None` on a hart without them (also with Zfinx, which has
/// only `fcsr`). It tries instructions, since `misa` may be zero and FS may be writable without F.
/// The unit must be open.
fn width() -> Option<Width> {
    // SAFETY: copies f0 into an integer register, which changes nothing.
    let (_, has_double) = unsafe {
        probe!(
            ".option push\n.option arch, +d\nfmv.x.d {value}, f0\n.option pop",
            0
        )
    };
    if has_double {
        return Some(Width::Double);
    }
    // SAFETY: as above.
    let (_, has_single) = unsafe {
        probe!(
            ".option push\n.option arch, +f\nfmv.x.w {value}, f0\n.option pop",
            0
        )
    };
    has_single.then_some(Width::Single)
}

/// Returns whether the hart has floating-point registers.
pub fn is_there() -> bool {
    opened(status::FS, || width().is_some())
}

/// Reads the registers, for every value of `mstatus.FS`; `None` on a hart without them.
pub fn save() -> Option<FloatRegisters> {
    opened(status::FS, || {
        let width = width()?;
        let mut registers = [0; 33];
        registers[32] = csr::read::<{ csr::FCSR }>();
        let words = registers.as_mut_ptr();
        // SAFETY: stores f0 to f31, which exist with this width, into the array.
        unsafe {
            match width {
                Width::Double => for_each_register!("d", "fsd", words, nostack),
                Width::Single => for_each_register!("f", "fsw", words, nostack),
            }
        }
        Some(registers)
    })
}

/// Sets the registers to zero; `mstatus.FS` stays as it is. Returns whether the hart has them.
pub fn clear() -> bool {
    const ZEROS: FloatRegisters = [0; 33];
    let is_there = is_there();
    if is_there {
        restore(&ZEROS);
    }
    is_there
}

/// Writes the registers. `mstatus.FS` stays as it is.
pub fn restore(registers: &FloatRegisters) {
    opened(status::FS, || {
        let words = registers.as_ptr();
        let width = width();
        // SAFETY: loads f0 to f31, which have this width, from the array. The firmware is built
        // without floating point, so it uses none of them.
        unsafe {
            match width {
                Some(Width::Double) => {
                    for_each_register!("d", "fld", words, nostack, readonly);
                }
                Some(Width::Single) => {
                    for_each_register!("f", "flw", words, nostack, readonly);
                }
                None => return,
            }
            csr::write::<{ csr::FCSR }>(registers[32]);
        }
    });
}
