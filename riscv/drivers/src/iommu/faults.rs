use core::fmt;

use super::memory::{TableMemory, TablePages};
use super::queue::{QueueRegisters, start_queue};
use super::register::{FQB, FQCSR, FQH, FQT, fqcsr, queue};
use super::{DeviceId, IommuError};
use crate::Registers;

/// Entries of a queue of one page.
const ENTRIES: u32 = 128;

/// Bytes of a record.
const BYTES: u64 = 32;

/// An access that the IOMMU refused, or another event (3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The device; 0 if no access caused the event.
    pub device: DeviceId,
    /// The reason.
    pub cause: FaultCause,
    /// The kind of access.
    pub access: Access,
    /// The address that the device used. Its lowest 12 bits may be missing.
    pub address: u64,
}

/// The reason for a fault (3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    /// The IOMMU lets no access pass (256).
    Off,
    /// The device's context is closed (258).
    Closed,
    /// The IOMMU does not accept the device's context (259).
    Context,
    /// The device made a kind of access that its context does not allow, or its ID is too large
    /// for the directory (260).
    Disallowed,
    /// The address is outside the map, or read-only (12, 13, 15).
    Outside,
    /// Another cause, by its number.
    Other(u16),
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read, also for execution.
    Read,
    /// Write, also an atomic one.
    Write,
    /// A request or a message of another kind.
    Other,
}

/// The result of a [drain](super::TranslatingIommu::drain_faults).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Number of the records that were taken.
    pub records: u32,
    /// Later records were dropped, because the queue was full.
    pub has_overflowed: bool,
    /// The IOMMU could not write a record, and dropped later ones.
    pub has_failed: bool,
    /// More records wait.
    pub has_more: bool,
}

impl Fault {
    /// The fault in the words of a record.
    fn from_words(first: u64, address: u64) -> Self {
        let [_, _, _, _, kind, device @ ..] = first.to_le_bytes();
        let [a, b, c] = device;
        Fault {
            device: DeviceId(u32::from_le_bytes([a, b, c, 0])),
            cause: FaultCause::from_number(u16::from_le_bytes([
                first.to_le_bytes()[0],
                first.to_le_bytes()[1] & 0xf,
            ])),
            access: Access::from_number(kind >> 2),
            address,
        }
    }
}

impl FaultCause {
    fn from_number(number: u16) -> Self {
        match number {
            12 | 13 | 15 => FaultCause::Outside,
            256 => FaultCause::Off,
            258 => FaultCause::Closed,
            259 => FaultCause::Context,
            260 => FaultCause::Disallowed,
            other => FaultCause::Other(other),
        }
    }
}

impl Access {
    /// The access of a transaction type.
    fn from_number(number: u8) -> Self {
        match number {
            1 | 2 | 5 | 6 => Access::Read,
            3 | 7 => Access::Write,
            _ => Access::Other,
        }
    }
}

impl fmt::Display for FaultCause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultCause::Off => out.write_str("the IOMMU is off"),
            FaultCause::Closed => out.write_str("its context is closed"),
            FaultCause::Context => out.write_str("the IOMMU refuses its context"),
            FaultCause::Disallowed => out.write_str("this kind of access is not allowed"),
            FaultCause::Outside => out.write_str("the address is outside its map"),
            FaultCause::Other(number) => write!(out, "IOMMU cause {number}"),
        }
    }
}

/// The fault queue.
#[derive(Debug)]
pub(super) struct FaultQueue {
    page: u64,
    /// Index of the next record to take.
    head: u32,
}

impl FaultQueue {
    /// Turns the queue on, which is off, with the next free page (6.2).
    pub(super) fn start<R: Registers<u32> + Registers<u64>>(
        registers: &R,
        memory: &impl TableMemory,
        pages: &mut TablePages,
    ) -> Result<Self, IommuError> {
        let of = QueueRegisters {
            base: FQB,
            index: FQH,
            control: FQCSR,
        };
        let page = start_queue(registers, of, ENTRIES, memory, pages)?;
        Ok(FaultQueue { page, head: 0 })
    }

    /// Takes at most `limit` records.
    pub(super) fn drain(
        &mut self,
        registers: &impl Registers<u32>,
        memory: &impl TableMemory,
        limit: u32,
        mut show: impl FnMut(Fault),
    ) -> Drained {
        let mut drained = Drained::default();
        let tail = registers.read(FQT) % ENTRIES;
        while self.head != tail && drained.records < limit {
            let place = self.page + u64::from(self.head) * BYTES;
            show(Fault::from_words(
                memory.read(place),
                memory.read(place + BYTES / 2),
            ));
            self.head = (self.head + 1) % ENTRIES;
            drained.records += 1;
        }
        drained.has_more = self.head != tail;
        if drained.records > 0 {
            registers.write(FQH, self.head);
        }
        let control = registers.read(FQCSR);
        drained.has_overflowed = control & fqcsr::OVERFLOW != 0;
        drained.has_failed = control & queue::MEMORY_FAULT != 0;
        // There is room now. The IOMMU drops all records until the bits are cleared.
        let lost = control & (fqcsr::OVERFLOW | queue::MEMORY_FAULT);
        if lost != 0 && control & queue::BUSY == 0 {
            registers.write(FQCSR, queue::ENABLE | lost);
        }
        drained
    }
}
