use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits of `mstatus` (privileged specification, 3.1.6).
mod mstatus {
    /// Machine mode's interrupts are on after the return.
    pub(super) const MPIE: u64 = 1 << 7;
    /// Mode that the return leads to (two bits).
    pub(super) const MPP: u64 = 3 << 11;
    /// MPP: machine mode.
    pub(super) const MPP_MACHINE: u64 = 3 << 11;
    /// MPP: reserved.
    pub(super) const MPP_RESERVED: u64 = 2 << 11;
    /// The return leads to a virtual machine.
    pub(super) const MPV: u64 = 1 << 39;
    /// The trapped code expected a landing pad next (Zicfilp).
    pub(super) const MPELP: u64 = 1 << 41;
    /// The OS's own bits, which `sstatus` shows: SIE, SPIE, UBE, SPP, VS, FS, SUM, MXR, SPELP and
    /// SDT (10.1.1).
    pub(super) const OF_THE_OS: u64 = 1 << 1
        | 1 << 5
        | 1 << 6
        | 1 << 8
        | 3 << 9
        | 3 << 13
        | 1 << 18
        | 1 << 19
        | 1 << 23
        | 1 << 24;
}

/// The registers of an OS that was stopped between any two instructions. A wake after an SBI call
/// does not need them: the OS continues at the address that it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Execution {
    /// x0 to x31; the first is zero.
    pub x: [u64; 32],
    /// The program counter.
    pub pc: u64,
    /// `mstatus` at the trap.
    pub status: u64,
    /// `satp`: the address space.
    pub address_space: u64,
    /// `mcycle`.
    pub cycles: u64,
    /// `minstret`.
    pub instructions: u64,
}

/// The execution's mode is machine mode or reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("mstatus {0:#x} does not return to an OS")]
pub struct NotOfTheOs(pub u64);

impl Execution {
    /// Computes `mstatus` for the return into the OS: the OS's bits and the mode at the trap from
    /// the execution, machine mode's bits from `own`.
    ///
    /// # Errors
    ///
    /// [`NotOfTheOs`].
    pub fn status_for_return(&self, own: u64) -> Result<u64, NotOfTheOs> {
        if [mstatus::MPP_MACHINE, mstatus::MPP_RESERVED].contains(&(self.status & mstatus::MPP)) {
            return Err(NotOfTheOs(self.status));
        }
        let kept = mstatus::OF_THE_OS | mstatus::MPP | mstatus::MPV | mstatus::MPELP;
        Ok(own & !kept | self.status & kept | mstatus::MPIE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(status: u64) -> Execution {
        Execution {
            x: [0; 32],
            pc: 0,
            status,
            address_space: 0,
            cycles: 0,
            instructions: 0,
        }
    }

    proptest! {
        #[test]
        fn nobody_returns_to_machine_mode(status: u64, own: u64) {
            let returned = at(status).status_for_return(own);
            match status >> 11 & 3 {
                0 | 1 => {
                    let returned = returned.unwrap();
                    prop_assert_eq!(returned >> 11 & 3, status >> 11 & 3);
                    // MIE, MPRV, TVM, TW and TSR are machine mode's own.
                    for bit in [3, 17, 20, 21, 22] {
                        prop_assert_eq!(returned >> bit & 1, own >> bit & 1);
                    }
                    let kept = mstatus::OF_THE_OS | mstatus::MPELP | mstatus::MPV;
                    prop_assert_eq!(returned & kept, status & kept);
                }
                _ => prop_assert_eq!(returned, Err(NotOfTheOs(status))),
            }
        }
    }
}
