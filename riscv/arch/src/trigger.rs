//! The calling hart's triggers.

use poorwill_hart::trigger::{Register, TriggerAccess};

use crate::csr;

/// The calling hart's triggers. Machine mode's own code runs with none that stops it.
#[derive(Clone, Copy, Debug)]
pub struct Triggers;

impl TriggerAccess for Triggers {
    fn read(&self, register: Register) -> Option<u64> {
        match register {
            Register::Select => csr::try_read::<{ csr::TSELECT }>(),
            Register::Data1 => csr::try_read::<{ csr::TDATA1 }>(),
            Register::Data2 => csr::try_read::<{ csr::TDATA2 }>(),
            Register::Data3 => csr::try_read::<{ csr::TDATA3 }>(),
        }
    }

    fn write(&self, register: Register, value: u64) -> bool {
        // SAFETY: the values of `poorwill_hart::trigger` never stop machine mode.
        unsafe {
            match register {
                Register::Select => csr::try_write::<{ csr::TSELECT }>(value),
                Register::Data1 => csr::try_write::<{ csr::TDATA1 }>(value),
                Register::Data2 => csr::try_write::<{ csr::TDATA2 }>(value),
                Register::Data3 => csr::try_write::<{ csr::TDATA3 }>(value),
            }
        }
    }
}
