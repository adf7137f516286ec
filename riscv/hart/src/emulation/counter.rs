//! Reads of `cycle`, `time` and `instret` (unprivileged specification, Zicntr), for harts that lack
//! one of them. The caller's rights are those of the privileged specification (3.1.11, 12.1.1.5; H
//! extension, 18.2.6 and 18.2.7).

use super::fault::{cause, status};
use crate::{Csr, CsrAccess};

/// CYCLE, TIME and INSTRET in `mcounteren` and `scounteren`.
pub const COUNTERS: u64 = 0b111;

/// A counter that programs may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// `cycle`
    Cycle,
    /// `time`
    Time,
    /// `instret`
    Instructions,
}

/// A read that the caller may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterRead {
    /// The counter.
    pub counter: Counter,
    to: u8,
    /// The guest's own offset: `htimedelta` for `time`.
    offset: u64,
}

/// Bytes of the instruction.
const LENGTH: usize = 4;

impl CounterRead {
    /// Decodes an instruction that the hart calls illegal; `machine` is `mstatus` after the trap.
    ///
    /// # Errors
    ///
    /// The cause of the exception for the OS: the instruction is another one, writes, or is not
    /// permitted, or the caller has 32-bit registers.
    pub fn of(bits: u32, machine: u64, hart: &impl CsrAccess) -> Result<Self, u64> {
        if !is_read(bits) {
            return Err(cause::ILLEGAL_INSTRUCTION);
        }
        // By its place after `cycle`, as its bit in `mcounteren`, `scounteren` and `hcounteren`.
        let place = bits >> 20 & 3;
        let is_guest = status::is_guest(machine);
        let is_user = !status::is_supervisor(machine);
        if COUNTERS >> place & 1 == 0 || is_narrow(machine, is_guest, is_user, hart) {
            return Err(cause::ILLEGAL_INSTRUCTION);
        }
        let is_open = |csr| {
            hart.read_csr(csr)
                .is_some_and(|open| open >> place & 1 != 0)
        };
        if is_guest && !is_open(Csr::Hcounteren) || is_user && !is_open(Csr::Scounteren) {
            return Err(if is_guest {
                cause::VIRTUAL_INSTRUCTION
            } else {
                cause::ILLEGAL_INSTRUCTION
            });
        }
        let counter = match place {
            0 => Counter::Cycle,
            1 => Counter::Time,
            _ => Counter::Instructions,
        };
        let offset = match counter {
            Counter::Time if is_guest => hart.read_csr(Csr::Htimedelta).unwrap_or(0),
            _ => 0,
        };
        Ok(CounterRead {
            counter,
            to: (bits >> 7 & 31) as u8,
            offset,
        })
    }

    /// Completes the instruction with the counter's value on the hart. Returns the instruction's
    /// length, for the program counter.
    #[must_use]
    pub fn complete(&self, x: &mut [usize; 32], value: u64) -> usize {
        if self.to != 0 {
            x[usize::from(self.to)] = value.wrapping_add(self.offset) as usize;
        }
        LENGTH
    }
}

/// Returns whether this is an instruction that reads one of the counters and writes none: CSRRS or
/// CSRRC with `x0`, or CSRRSI or CSRRCI with 0.
fn is_read(bits: u32) -> bool {
    /// The opcode SYSTEM, the source, and the bit of `funct3` that tells these from CSRRW(I).
    const FIXED: u32 = 0x7f | 1 << 13 | 31 << 15;
    const READ: u32 = 0x73 | 1 << 13;
    const CYCLE: u32 = 0xc00;
    const INSTRET: u32 = 0xc02;
    bits & FIXED == READ && (CYCLE..=INSTRET).contains(&(bits >> 20))
}

/// Returns whether the caller has 32-bit registers.
fn is_narrow(machine: u64, is_guest: bool, is_user: bool, hart: &impl CsrAccess) -> bool {
    if status::is_supervisor_narrow(machine) {
        return true;
    }
    if !is_guest {
        return is_user && status::is_user_narrow(machine);
    }
    let read = |csr| hart.read_csr(csr).unwrap_or(0);
    status::is_guest_narrow(read(Csr::Hstatus))
        || is_user && status::is_user_narrow(read(Csr::Vsstatus))
}
