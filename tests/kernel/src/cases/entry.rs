//! Checks the state in which each hart enters the kernel: the boot hart, a hart that HSM starts, and
//! one that ran a kernel before.

use crate::{
    arch::{SSTATUS_FS, SSTATUS_MXR, SSTATUS_SUM, SSTATUS_VS, float, vector},
    check,
    machine::Machine,
    read_csr, say,
    units::Units,
    workers, write_csr,
};

/// Value of `sstatus.FS` and `sstatus.VS`: the registers have their initial values.
const FS_INITIAL: usize = 1 << 13;
const VS_INITIAL: usize = 1 << 9;
/// Read-only: the width of U-mode's registers.
const SSTATUS_UXL: usize = 3 << 32;
/// `vtype.vill` alone.
const NO_TYPE: usize = 1 << 63;

/// Nothing before this may use a unit or take a trap.
pub(super) fn run(machine: &Machine, hart: usize) {
    say!(
        "units: floating point {}, vector {}",
        machine.has_double,
        machine.has_vector
    );
    check_entry(machine);
    // The second start finds the contents and the bits of the first.
    for round in 0..2 {
        let job = || {
            if workers::own_place(machine).is_some() {
                check_entry(machine);
                Units::set(machine, round);
                write_csr!("sstatus", read_csr!("sstatus") | SSTATUS_SUM | SSTATUS_MXR);
            }
        };
        workers::with_all(machine, hart, &job, |run| run());
    }
}

/// The calling hart may use its units at once, and they hold zeros.
fn check_entry(machine: &Machine) {
    let status = read_csr!("sstatus") & !SSTATUS_UXL;
    let float = if machine.has_double { FS_INITIAL } else { 0 };
    let vector = if machine.has_vector { VS_INITIAL } else { 0 };
    check!(
        status == float | vector,
        "sstatus at the entry: {status:#x}"
    );
    if machine.has_double && status & SSTATUS_FS != 0 {
        let mut floats = [u64::MAX; 33];
        // SAFETY: all harts have D, and FS is not Off.
        unsafe { float::store(&mut floats) };
        check!(
            floats == [0; 33],
            "the floating point registers at the entry: {floats:x?}"
        );
    }
    if machine.has_vector && status & SSTATUS_VS != 0 {
        let mut vectors = vector::Registers::ZERO;
        // Also checks the length of the registers.
        vectors.used().fill(0xff);
        // SAFETY: all harts have V with registers of this length, and VS is not Off.
        unsafe { vector::store(&mut vectors) };
        let zero = vector::Registers {
            vtype: NO_TYPE,
            ..vector::Registers::ZERO
        };
        check!(
            vectors == zero,
            "the vector registers at the entry: {vectors:x?}"
        );
    }
}
