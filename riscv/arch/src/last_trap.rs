//! The registers of a hart's last trap into machine mode.

use core::fmt;

use crate::csr;

/// The CSRs that describe a trap.
#[derive(Clone, Copy, Debug)]
pub struct LastTrap {
    cause: u64,
    address: u64,
    value: u64,
    status: u64,
}

impl LastTrap {
    /// Reads the calling hart's CSRs.
    #[must_use]
    pub fn read() -> Self {
        LastTrap {
            cause: csr::read::<{ csr::MCAUSE }>(),
            address: csr::read::<{ csr::MEPC }>(),
            value: csr::read::<{ csr::MTVAL }>(),
            status: csr::read::<{ csr::MSTATUS }>(),
        }
    }
}

impl fmt::Display for LastTrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LastTrap {
            cause,
            address,
            value,
            status,
        } = self;
        write!(
            f,
            "mcause={cause:#x} mepc={address:#x} mtval={value:#x} mstatus={status:#x}"
        )
    }
}
