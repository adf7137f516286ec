use super::memory::{TableMemory, TablePages};
use super::queue::{QueueRegisters, start_queue};
use super::register::{CQB, CQCSR, CQH, CQT, cqcsr, queue};
use super::{DeviceId, IommuError, MAX_POLLS};
use crate::Registers;

/// Entries of a queue of one page.
const ENTRIES: u32 = 256;

/// Words of a command, and its bytes.
const WORDS: usize = 2;
const BYTES: u64 = 16;

/// A command (3.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Command([u64; WORDS]);

impl Command {
    /// Drops cached directory entries: the context of one device, or all entries (3.1.3).
    pub(super) fn invalidate_directory(device: Option<DeviceId>) -> Self {
        const IODIR_INVAL_DDT: u64 = 3;
        const DEVICE_VALID: u64 = 1 << 33;
        let operand = device.map_or(0, |device| DEVICE_VALID | u64::from(device.0) << 40);
        Command([IODIR_INVAL_DDT | operand, 0])
    }

    /// Drops cached translations of first stages: those of one address space, or all (3.1.1).
    pub(super) fn invalidate_translations(space: Option<u32>) -> Self {
        const IOTINVAL_VMA: u64 = 1;
        const SPACE_VALID: u64 = 1 << 32;
        let operand = space.map_or(0, |space| SPACE_VALID | u64::from(space) << 12);
        Command([IOTINVAL_VMA | operand, 0])
    }

    /// Completes after all earlier commands, and after all accesses of devices that they let pass
    /// (3.1.2).
    pub(super) fn fence() -> Self {
        const IOFENCE_C: u64 = 2;
        const EARLIER_READS: u64 = 1 << 12;
        const EARLIER_WRITES: u64 = 1 << 13;
        Command([IOFENCE_C | EARLIER_READS | EARLIER_WRITES, 0])
    }
}

/// The command queue. It is empty between calls.
#[derive(Debug)]
pub(super) struct CommandQueue {
    page: u64,
    /// Index of the next command.
    tail: u32,
}

impl CommandQueue {
    /// Turns the queue on, which is off, with the next free page (6.2).
    pub(super) fn start<R: Registers<u32> + Registers<u64>>(
        registers: &R,
        memory: &impl TableMemory,
        pages: &mut TablePages,
    ) -> Result<Self, IommuError> {
        let of = QueueRegisters {
            base: CQB,
            index: CQT,
            control: CQCSR,
        };
        let page = start_queue(registers, of, ENTRIES, memory, pages)?;
        Ok(CommandQueue { page, tail: 0 })
    }

    /// Gives the IOMMU the commands, fewer than the queue's entries, and a fence; waits until all
    /// are complete.
    pub(super) fn run(
        &mut self,
        registers: &impl Registers<u32>,
        memory: &impl TableMemory,
        commands: impl Iterator<Item = Command>,
    ) -> Result<(), IommuError> {
        // Commands that wait since an earlier failure would be overwritten some day.
        if registers.read(CQH) != self.tail {
            return Err(stopped_or_stalled(registers.read(CQCSR)));
        }
        for Command(words) in commands.chain([Command::fence()]) {
            let place = self.page + u64::from(self.tail) * BYTES;
            memory.write(place, words[0]);
            memory.write(place + BYTES / 2, words[1]);
            self.tail = (self.tail + 1) % ENTRIES;
        }
        registers.write(CQT, self.tail);
        for _ in 0..MAX_POLLS {
            // The head also stands at a command that the IOMMU refused, so errors count first.
            let control = registers.read(CQCSR);
            if is_stopped(control) {
                return Err(IommuError::Stopped(control));
            }
            if registers.read(CQH) == self.tail {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        Err(stopped_or_stalled(registers.read(CQCSR)))
    }
}

/// Whether an error stopped the queue, or it is off.
fn is_stopped(control: u32) -> bool {
    let errors = queue::MEMORY_FAULT | cqcsr::TIMED_OUT | cqcsr::ILLEGAL;
    control & errors != 0 || control & queue::ON == 0
}

fn stopped_or_stalled(control: u32) -> IommuError {
    if is_stopped(control) {
        IommuError::Stopped(control)
    } else {
        IommuError::Stalled { polls: MAX_POLLS }
    }
}
