//! Turns queues on and off.

use poorwill_memory::PAGE_BYTES;

use super::memory::{TableMemory, TablePages};
use super::register::{PAGE_NUMBER, queue};
use super::{IommuError, MAX_POLLS};
use crate::Registers;

/// The registers of a queue, by their offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueRegisters {
    /// Base register.
    pub(super) base: u64,
    /// The index that software writes.
    pub(super) index: u64,
    /// Control and status register.
    pub(super) control: u64,
}

/// Turns a queue on, which is off, with the next free page, for this number of entries (5.6, 5.9,
/// 6.2). Returns the page's address.
pub(super) fn start_queue<R: Registers<u32> + Registers<u64>>(
    registers: &R,
    of: QueueRegisters,
    entries: u32,
    memory: &impl TableMemory,
    pages: &mut TablePages,
) -> Result<u64, IommuError> {
    let page = pages.take(memory)?;
    let log2_less_one = u64::from(entries.trailing_zeros()) - 1;
    let base = (page / PAGE_BYTES) << PAGE_NUMBER | log2_less_one;
    Registers::<u64>::write(registers, of.base, base);
    Registers::<u32>::write(registers, of.index, 0);
    turn_on(registers, of.control)?;
    Ok(page)
}

/// Turns a queue off, and waits until the IOMMU accesses it no more.
pub(super) fn turn_off(registers: &impl Registers<u32>, control: u64) -> Result<(), IommuError> {
    wait(registers, control, |value| value & queue::BUSY == 0)?;
    registers.write(control, 0);
    wait(registers, control, |value| {
        value & (queue::ON | queue::BUSY) == 0
    })
}

/// Turns a queue on.
fn turn_on(registers: &impl Registers<u32>, control: u64) -> Result<(), IommuError> {
    registers.write(control, queue::ENABLE);
    wait(registers, control, |value| {
        value & (queue::ON | queue::BUSY) == queue::ON
    })
}

fn wait(
    registers: &impl Registers<u32>,
    register: u64,
    is_done: impl Fn(u32) -> bool,
) -> Result<(), IommuError> {
    for _ in 0..MAX_POLLS {
        if is_done(registers.read(register)) {
            return Ok(());
        }
        core::hint::spin_loop();
    }
    let polls = MAX_POLLS;
    Err(IommuError::Busy { register, polls })
}
