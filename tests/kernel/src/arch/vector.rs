//! The vector registers, which this binary itself never uses.

use core::arch::naked_asm;

/// Most bytes of a register that the tests' machines have.
const MAX_BYTES: usize = 64;

/// The vector unit's state, for registers of up to 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Registers {
    /// `vl`, elements that instructions work on.
    pub(crate) vl: usize,
    /// `vtype`, their type.
    pub(crate) vtype: usize,
    /// `vcsr`, rounding and saturation.
    pub(crate) vcsr: usize,
    /// `vstart`, the first element.
    pub(crate) vstart: usize,
    /// v0 to v31, one behind the other.
    pub(crate) v: [u8; 32 * MAX_BYTES],
}

/// Sets every vector register. `sstatus.VS` must not be off.
///
/// # Safety
/// The hart must have the V extension, with registers of up to 64 bytes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load(from: &Registers) {
    naked_asm!(
        ".option push",
        ".option arch, +v",
        "csrw vstart, zero",
        "csrr t0, vlenb",
        "slli t0, t0, 3",
        "addi t1, a0, 32",
        "vl8re8.v v0, (t1)",
        "add t1, t1, t0",
        "vl8re8.v v8, (t1)",
        "add t1, t1, t0",
        "vl8re8.v v16, (t1)",
        "add t1, t1, t0",
        "vl8re8.v v24, (t1)",
        "ld t0, 0(a0)",
        "ld t1, 8(a0)",
        "vsetvl zero, t0, t1",
        "ld t0, 16(a0)",
        "csrw vcsr, t0",
        "ld t0, 24(a0)",
        "csrw vstart, t0",
        ".option pop",
        "ret",
    )
}

/// Reads every vector register. `sstatus.VS` must not be off.
///
/// # Safety
/// As for [`load`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn store(to: &mut Registers) {
    naked_asm!(
        ".option push",
        ".option arch, +v",
        "csrr t0, vl",
        "sd t0, 0(a0)",
        "csrr t0, vtype",
        "sd t0, 8(a0)",
        "csrr t0, vcsr",
        "sd t0, 16(a0)",
        "csrr t0, vstart",
        "sd t0, 24(a0)",
        "csrw vstart, zero",
        "csrr t1, vlenb",
        "slli t1, t1, 3",
        "addi t2, a0, 32",
        "vs8r.v v0, (t2)",
        "add t2, t2, t1",
        "vs8r.v v8, (t2)",
        "add t2, t2, t1",
        "vs8r.v v16, (t2)",
        "add t2, t2, t1",
        "vs8r.v v24, (t2)",
        "csrw vstart, t0",
        ".option pop",
        "ret",
    )
}

impl Registers {
    /// All zero.
    pub(crate) const ZERO: Registers = Registers {
        vl: 0,
        vtype: 0,
        vcsr: 0,
        vstart: 0,
        v: [0; 32 * MAX_BYTES],
    };

    /// v0 to v31 on this hart. `sstatus.VS` must not be off.
    pub(crate) fn used(&mut self) -> &mut [u8] {
        let bytes = crate::read_csr!("0xc22");
        assert!(bytes <= MAX_BYTES, "registers of {bytes} bytes");
        &mut self.v[..32 * bytes]
    }
}
