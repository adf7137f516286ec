//! SiFive's UART (FU540-C000 manual, chapter 13).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::chip::{Chip, LineEvents};
use crate::Registers;

/// Registers, by offset.
mod register {
    pub(super) const TRANSMIT_DATA: u64 = 0;
    pub(super) const RECEIVE_DATA: u64 = 4;
    pub(super) const TRANSMIT_CONTROL: u64 = 8;
    pub(super) const RECEIVE_CONTROL: u64 = 0xc;
    pub(super) const INTERRUPT_ENABLE: u64 = 0x10;
    pub(super) const INTERRUPT_PENDING: u64 = 0x14;
    pub(super) const DIVISOR: u64 = 0x18;
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

/// The OS's settings.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SifiveState {
    pub(super) transmit_control: u32,
    pub(super) receive_control: u32,
    pub(super) interrupts: u32,
    pub(super) divisor: u32,
}

/// SiFive's UART.
#[derive(Debug)]
pub struct Sifive<R> {
    registers: R,
    /// The OS's receive control, while [`Sifive::open_input`] has changed it.
    set_aside: Option<u32>,
}

impl<R: Registers<u32>> Sifive<R> {
    /// The UART with these registers.
    pub fn new(registers: R) -> Self {
        Sifive {
            registers,
            set_aside: None,
        }
    }

    /// Turns both directions on: a reset turns them off. The divisor is the previous stage's.
    pub fn turn_on(&self) {
        for control in [register::TRANSMIT_CONTROL, register::RECEIVE_CONTROL] {
            let before = self.registers.read(control);
            self.registers.write(control, before | ON);
        }
    }

    /// Turns the receiver on, with a watermark of zero, so that [`Chip::events`] reports each byte
    /// without taking it.
    pub fn open_input(&mut self) {
        let before = self.receive_control();
        let open = before & !WATERMARK | ON;
        self.registers.write(register::RECEIVE_CONTROL, open);
        self.set_aside = Some(before);
    }

    /// Restores the OS's receive control after [`open_input`](Self::open_input). A received byte
    /// stays for the OS.
    pub fn close_input(&mut self) {
        if let Some(before) = self.set_aside.take() {
            self.registers.write(register::RECEIVE_CONTROL, before);
        }
    }

    /// Captures the OS's settings. Bytes in the FIFOs are not kept.
    pub fn capture(&self) -> SifiveState {
        SifiveState {
            transmit_control: self.registers.read(register::TRANSMIT_CONTROL),
            receive_control: self.receive_control(),
            interrupts: self.registers.read(register::INTERRUPT_ENABLE),
            divisor: self.registers.read(register::DIVISOR),
        }
    }

    /// Restores the settings. Interrupts come last: an empty transmitter then interrupts again.
    pub fn restore(&self, state: &SifiveState) {
        // The last byte may still be on the line, and another rate would destroy it.
        if self.registers.read(register::DIVISOR) != state.divisor {
            self.registers.write(register::DIVISOR, state.divisor);
        }
        for (control, value) in [
            (register::TRANSMIT_CONTROL, state.transmit_control),
            (register::RECEIVE_CONTROL, state.receive_control),
            (register::INTERRUPT_ENABLE, state.interrupts),
        ] {
            self.registers.write(control, value);
        }
    }

    /// The OS's receive control.
    fn receive_control(&self) -> u32 {
        let read = || self.registers.read(register::RECEIVE_CONTROL);
        self.set_aside.unwrap_or_else(read)
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
