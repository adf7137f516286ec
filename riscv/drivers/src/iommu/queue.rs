//! Turns queues on and off.

use super::register::queue;
use super::{IommuError, MAX_POLLS};
use crate::Registers;

/// Log 2 of the number of entries, minus 1, of a queue of one page (5.6, 5.9).
pub(super) const fn log2_less_one(entries: u32) -> u64 {
    entries.trailing_zeros() as u64 - 1
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
pub(super) fn turn_on(registers: &impl Registers<u32>, control: u64) -> Result<(), IommuError> {
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
