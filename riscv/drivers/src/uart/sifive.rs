//! SiFive's UART (FU540-C000 manual, chapter 13).

use super::chip::{Chip, LineEvents};
use crate::Registers;

/// Registers, by offset.
mod register {
    pub(super) const TRANSMIT_DATA: u64 = 0;
    pub(super) const RECEIVE_DATA: u64 = 4;
    pub(super) const TRANSMIT_CONTROL: u64 = 8;
    pub(super) const RECEIVE_CONTROL: u64 = 0xc;
    pub(super) const INTERRUPT_PENDING: u64 = 0x14;
}

/// Transmit data: the FIFO is full, and drops a byte. Receive data: no byte has come.
const FULL_OR_EMPTY: u32 = 1 << 31;

/// Transmit and receive control: the direction is on.
const ON: u32 = 1;
/// The same: the interrupt's watermark.
const WATERMARK: u32 = 7 << 16;
const WATERMARK_OF_ONE: u32 = 1 << 16;

/// Interrupts pending: fewer bytes than the watermark are to be sent.
const TRANSMIT_PENDING: u32 = 1 << 0;
/// The same: more bytes than the watermark have come.
const RECEIVE_PENDING: u32 = 1 << 1;

/// SiFive's UART.
#[derive(Debug)]
pub struct Sifive<R> {
    registers: R,
}

/// The OS's receive control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputControl(u32);

impl<R: Registers<u32>> Sifive<R> {
    /// The UART with these registers. Both directions are on from here: a reset turns them off. The
    /// divisor is the previous stage's.
    pub fn start(registers: R) -> Self {
        for control in [register::TRANSMIT_CONTROL, register::RECEIVE_CONTROL] {
            registers.write(control, registers.read(control) | ON);
        }
        Sifive { registers }
    }

    /// Turns the receiver on, with a watermark of zero, so that [`Chip::events`] reports each byte
    /// without taking it. Returns what [`close_input`](Self::close_input) restores.
    pub fn open_input(&self) -> InputControl {
        let before = self.registers.read(register::RECEIVE_CONTROL);
        let open = before & !WATERMARK | ON;
        self.registers.write(register::RECEIVE_CONTROL, open);
        InputControl(before)
    }

    /// Restores the OS's receive control. A received byte stays for the OS.
    pub fn close_input(&self, before: InputControl) {
        self.registers.write(register::RECEIVE_CONTROL, before.0);
    }

    fn is_pending(&self, interrupt: u32) -> bool {
        self.registers.read(register::INTERRUPT_PENDING) & interrupt != 0
    }
}

impl<R: Registers<u32>> Chip for Sifive<R> {
    fn is_ready(&self) -> bool {
        self.registers.read(register::TRANSMIT_DATA) & FULL_OR_EMPTY == 0
    }

    fn put(&self, byte: u8) {
        (self.registers).write(register::TRANSMIT_DATA, byte.into());
    }

    /// No setting shares a register with the data.
    fn is_being_set(&self) -> bool {
        false
    }

    fn put_amid_settings(&self, byte: u8) {
        self.put(byte);
    }

    fn take(&self) -> Option<u8> {
        let data = self.registers.read(register::RECEIVE_DATA);
        (data & FULL_OR_EMPTY == 0).then(|| data.to_le_bytes()[0])
    }

    /// The FIFO is empty; the byte before may still be on the line.
    fn is_idle(&self) -> bool {
        let before = self.registers.read(register::TRANSMIT_CONTROL);
        let of_one = before & !WATERMARK | WATERMARK_OF_ONE;
        self.registers.write(register::TRANSMIT_CONTROL, of_one);
        let is_empty = self.is_pending(TRANSMIT_PENDING);
        self.registers.write(register::TRANSMIT_CONTROL, before);
        is_empty
    }

    /// A read of the data would take the byte. The UART has no sign of a break.
    fn events(&self) -> LineEvents {
        LineEvents {
            input: self.is_pending(RECEIVE_PENDING),
            line_break: false,
        }
    }
}
