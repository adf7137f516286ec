//! The contents of the floating point and the vector unit, Off or not.

use crate::{
    arch::{SSTATUS_FS, SSTATUS_VS, float, vector},
    check,
    machine::Machine,
    read_csr, write_csr,
};

/// What the units of a hart hold: `None` for one that not all harts have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    floats: Option<float::Registers>,
    vector: Option<vector::Registers>,
}

impl Units {
    /// Fills the registers with what `number` makes, and leaves the units on.
    pub(crate) fn set(machine: &Machine, number: usize) -> Self {
        Units {
            floats: machine.has_double.then(|| set_floats(number)),
            vector: machine.has_vector.then(|| set_vector(number)),
        }
    }

    /// The registers are as they were. The units are on afterwards.
    pub(crate) fn check(&self) {
        if let Some(was) = &self.floats {
            let now = read_floats();
            check!(
                now == *was,
                "the floating point registers: {now:x?}, were {was:x?}"
            );
        }
        if let Some(was) = &self.vector {
            let now = read_vector();
            check!(now == *was, "the vector registers: {now:x?}, were {was:x?}");
        }
    }
}

/// Turns both units on, where the hart has them.
pub(crate) fn turn_on() {
    write_csr!("sstatus", read_csr!("sstatus") | SSTATUS_FS | SSTATUS_VS);
}

/// Turns both units Off, as Linux does at each kernel entry: the registers stay.
pub(crate) fn turn_off() {
    write_csr!("sstatus", read_csr!("sstatus") & !(SSTATUS_FS | SSTATUS_VS));
}

fn set_floats(number: usize) -> float::Registers {
    write_csr!("sstatus", read_csr!("sstatus") | SSTATUS_FS);
    let mut floats: float::Registers = core::array::from_fn(|index| {
        0x4009_21fb_5444_2d18_u64.wrapping_mul(2 * index as u64 + 1) ^ number as u64
    });
    // fcsr: a rounding mode, and an exception flag.
    floats[32] = 0b010_00001 | (number as u64 % 2) << 1;
    // SAFETY: called if all harts have D only, and FS is on.
    unsafe { float::load(&floats) };
    floats
}

fn read_floats() -> float::Registers {
    let mut floats = [0; 33];
    write_csr!("sstatus", read_csr!("sstatus") | SSTATUS_FS);
    // SAFETY: called if all harts have D only, and FS is on.
    unsafe { float::store(&mut floats) };
    floats
}

fn set_vector(number: usize) -> vector::Registers {
    write_csr!("sstatus", read_csr!("sstatus") | SSTATUS_VS);
    let mut registers = vector::Registers {
        // Elements of 16 bits, two registers to a group, tails as they are.
        vtype: 0b001_001,
        vl: 5 + number % 2,
        // A rounding mode, and saturation.
        vcsr: 0b101,
        vstart: 3,
        ..vector::Registers::ZERO
    };
    for (index, byte) in registers.used().iter_mut().enumerate() {
        *byte = (index * 7 + index / 256 + number).to_le_bytes()[0];
    }
    // SAFETY: called if all harts have V only, VS is on, and `used` has looked at how
    // long the registers are.
    unsafe { vector::load(&registers) };
    registers
}

fn read_vector() -> vector::Registers {
    let mut registers = vector::Registers::ZERO;
    write_csr!("sstatus", read_csr!("sstatus") | SSTATUS_VS);
    // SAFETY: as in `set_vector`, which was called before.
    unsafe { vector::store(&mut registers) };
    registers
}
