//! Vector registers (V extension).

use core::arch::asm;

use poorwill_hart::VectorRegisters;

use crate::csr::{self, status};
use crate::unit::opened;

/// Bytes of a vector register; `None` on a hart without RVV 1.0. T-Head's version 0.7.1 has no
/// `vcsr` and does not count.
pub fn register_bytes() -> Option<u64> {
    opened(status::VS, || {
        csr::try_read::<{ csr::VCSR }>()?;
        csr::try_read::<{ csr::VLENB }>()
    })
}

/// Reads the registers. `into` must have the hart's register length.
pub fn save(into: &mut VectorRegisters) {
    opened(status::VS, || {
        into.vstart = csr::read::<{ csr::VSTART }>();
        into.vcsr = csr::read::<{ csr::VCSR }>();
        into.vl = csr::read::<{ csr::VL }>();
        into.vtype = csr::read::<{ csr::VTYPE }>();
        // SAFETY: stores v0 to v31, of `vlenb` bytes each, into memory of that size
        // (`VectorRegisters::new`). Whole-register stores begin at vstart and leave it zero.
        unsafe {
            csr::write::<{ csr::VSTART }>(0);
            asm!(
                ".option push", ".option arch, +v",
                "vs8r.v v0, ({0})",  "add {0}, {0}, {1}",
                "vs8r.v v8, ({0})",  "add {0}, {0}, {1}",
                "vs8r.v v16, ({0})", "add {0}, {0}, {1}",
                "vs8r.v v24, ({0})",
                ".option pop",
                inout(reg) into.v.as_mut_ptr() => _,
                in(reg) 8 * into.vlenb,
                options(nostack),
            );
            csr::write::<{ csr::VSTART }>(into.vstart);
        }
    });
}

/// Sets the registers to their values at a reset (V extension, 3.11), and v0 to v31 to zero.
/// `mstatus.VS` stays as it is. Returns whether the hart has them.
pub fn clear() -> bool {
    let is_there = register_bytes().is_some();
    if is_there {
        // SAFETY: the hart has the V extension. Only the OS uses these registers.
        opened(status::VS, || unsafe {
            csr::write::<{ csr::VSTART }>(0);
            csr::write::<{ csr::VCSR }>(0);
            asm!(
                ".option push", ".option arch, +v",
                "vsetvli {0}, zero, e8, m8, ta, ma",
                "vmv.v.i v0, 0",
                "vmv.v.i v8, 0",
                "vmv.v.i v16, 0",
                "vmv.v.i v24, 0",
                // An unsupported type sets vtype.vill alone, and vl to zero.
                "li {0}, 1 << 63",
                "vsetvl {0}, zero, {0}",
                ".option pop",
                out(reg) _,
                options(nostack, nomem),
            );
        });
    }
    is_there
}

/// Writes the registers, which must have the hart's register length.
pub fn restore(registers: &VectorRegisters) {
    // SAFETY: loads v0 to v31 from the value, of `vlenb` bytes each. vsetvl accepts any vl that it
    // has returned for the same vtype. It clears vstart, so vstart is written last.
    opened(status::VS, || unsafe {
        csr::write::<{ csr::VSTART }>(0);
        asm!(
            ".option push", ".option arch, +v",
            "vl8re8.v v0, ({0})",  "add {0}, {0}, {1}",
            "vl8re8.v v8, ({0})",  "add {0}, {0}, {1}",
            "vl8re8.v v16, ({0})", "add {0}, {0}, {1}",
            "vl8re8.v v24, ({0})",
            "vsetvl zero, {2}, {3}",
            ".option pop",
            inout(reg) registers.v.as_ptr() => _,
            in(reg) 8 * registers.vlenb,
            in(reg) registers.vl,
            in(reg) registers.vtype,
            options(nostack, readonly),
        );
        csr::write::<{ csr::VCSR }>(registers.vcsr);
        csr::write::<{ csr::VSTART }>(registers.vstart);
    });
}
