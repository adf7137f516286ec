//! Traps of the OS, its programs and its guests into machine mode:
//!
//! - [`OsTrap`] classifies them;
//! - [`Access`] describes a load or store that machine mode makes for the OS;
//! - [`CounterRead`] describes a read of a counter that the hart lacks;
//! - [`redirect`] delivers every other exception to the OS as hardware would have done.
//!
//! The instruction is fetched, and addresses are translated, with the OS's rights. Page tables are
//! read only from the OS's memory. Another hart of the OS may change the instruction and the tables
//! at any time. So this code reads each word once, and uses the same value that it has checked.
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out intentionally, and registers have 64 bits"
)]

mod counter;
mod fault;
mod os_trap;
mod redirect;
mod translation;

use poorwill_isa::{Direction, Instruction, MemoryAccess, is_long};

use crate::CsrAccess;
use crate::page_entry::Intent;
use translation::Translation;

pub use counter::{COUNTERS, Counter, CounterRead};
pub use fault::{Fault, cause, status};
pub use os_trap::OsTrap;
pub use redirect::{Redirected, redirect};
pub use translation::PhysicalMemory;

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read.
    Load,
    /// A write of this value; bytes past the access's width are zero.
    Store(u64),
}

/// A load or store of an integer register, at a physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Address of the first byte, a multiple of `bytes`.
    pub address: u64,
    /// Number of bytes: 1, 2, 4 or 8.
    pub bytes: u64,
    /// Direction.
    pub operation: Operation,
    /// Destination of a load.
    register: u8,
    direction: Direction,
    /// Bytes of the instruction.
    length: u8,
}

impl Access {
    /// An access of no instruction, naturally aligned. [`complete`](Self::complete) changes nothing.
    #[must_use]
    pub const fn new(address: u64, bytes: u64, operation: Operation) -> Self {
        Access {
            address,
            bytes,
            operation,
            register: 0,
            direction: Direction::Load { signed: false },
            length: 0,
        }
    }

    /// Decodes the access of the faulting instruction; `x` are the registers. `None` unless it is a
    /// naturally aligned load or store of an integer register that the caller may make; the OS then
    /// gets the fault. AMOs, floating point, vectors, and a hypervisor's loads from its guest are
    /// not supported, nor are 32-bit registers and big-endian data.
    pub fn of(
        fault: &Fault,
        x: &[usize; 32],
        hart: &impl CsrAccess,
        memory: &impl PhysicalMemory,
    ) -> Option<Self> {
        let translation = Translation::of(fault, hart, memory)?;
        let instruction = Instruction::decode(fetch(&translation, fault.pc, memory)?)?;
        let access = instruction.operation.memory_access()?;
        let register = |number: u8| match number {
            0 => 0,
            number => x[usize::from(number)] as u64,
        };
        let bytes = access.bytes;
        let (operation, intent) = match access.direction {
            Direction::Load { .. } => (Operation::Load, Intent::Load),
            Direction::Store => {
                let value = register(instruction.rs2);
                let value = value & (u64::MAX >> (u64::BITS as u64 - 8 * bytes));
                (Operation::Store(value), Intent::Store)
            }
        };
        // Another hart may have changed the instruction since it faulted.
        let has_faulted = match intent {
            Intent::Store => fault.cause == cause::STORE_ACCESS,
            _ => fault.cause == cause::LOAD_ACCESS,
        };
        let offset = instruction.immediate.into();
        let address = register(instruction.rs1).wrapping_add_signed(offset);
        if !has_faulted || !address.is_multiple_of(bytes) {
            return None;
        }
        Some(Access {
            address: translation.physical(address, intent)?,
            bytes,
            operation,
            register: instruction.rd,
            direction: access.direction,
            length: instruction.length,
        })
    }

    /// Completes the instruction: stores `loaded` in a load's register. Returns the instruction's
    /// length, for the program counter.
    #[must_use]
    pub fn complete(&self, x: &mut [usize; 32], loaded: u64) -> usize {
        let access = MemoryAccess {
            direction: self.direction,
            bytes: self.bytes,
        };
        if self.direction != Direction::Store && self.register != 0 {
            x[usize::from(self.register)] = access.extended(loaded) as usize;
        }
        self.length.into()
    }
}

/// Fetches the instruction that raised the fault; `None` if its caller may not execute it.
pub fn instruction_of(
    fault: &Fault,
    hart: &impl CsrAccess,
    memory: &impl PhysicalMemory,
) -> Option<u32> {
    fetch(&Translation::of(fault, hart, memory)?, fault.pc, memory)
}

/// Fetches the instruction at `pc`, which may cross a page. The upper bits of a short one are zero.
fn fetch<M: PhysicalMemory>(translation: &Translation<'_, M>, pc: u64, memory: &M) -> Option<u32> {
    let half = |at: u64| {
        let bits = memory.read(translation.physical(at, Intent::Fetch)?, 2)?;
        Some(bits as u32)
    };
    let low = half(pc)?;
    if !is_long(low) {
        return Some(low);
    }
    Some(half(pc.wrapping_add(2))? << 16 | low)
}
