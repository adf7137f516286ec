//! 16550 UARTs.

use poorwill_devicetree as devicetree;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::chip::{Chip, LineEvents};
use crate::Registers;

/// Registers by number (16550 data sheet, "Registers").
pub(super) mod register {
    /// Receive buffer (read) and transmit holding (write).
    pub(crate) const DATA: u64 = 0;
    /// Interrupt enable; with the divisor open, the divisor's high half.
    pub(crate) const IER: u64 = 1;
    /// Interrupt identification (read) and FIFO control (write).
    pub(crate) const FIFO: u64 = 2;
    /// Line control.
    pub(crate) const LCR: u64 = 3;
    /// Modem control.
    pub(crate) const MCR: u64 = 4;
    /// Line status.
    pub(crate) const LSR: u64 = 5;
    /// Scratch.
    pub(crate) const SCR: u64 = 7;
}

/// Line control: the divisor is at DATA and IER.
pub(super) const DIVISOR_OPEN: u8 = 1 << 7;

/// Interrupt identification: the FIFOs are on.
const FIFOS_ON: u8 = 3 << 6;

/// Maximum number of attempts to open the divisor. DesignWare's UART ignores writes to line control
/// while it transfers a byte. At 115,200 baud a full FIFO takes 1.4 ms, a twentieth of these.
pub(super) const ATTEMPTS: u32 = 20_000;

/// FIFO control: FIFOs on, with a threshold of eight bytes. The OS's value cannot be read back.
pub(super) const FIFO_CONTROL: u8 = 1 << 7 | 1;

mod line_status {
    pub(crate) const DATA_READY: u8 = 1 << 0;
    pub(crate) const BREAK: u8 = 1 << 4;
    pub(crate) const TRANSMIT_EMPTY: u8 = 1 << 5;
    /// The shift register is empty, too.
    pub(crate) const IDLE: u8 = 1 << 6;
}

/// The OS's settings.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Ns16550State {
    pub(super) line_control: u8,
    pub(super) divisor: [u8; 2],
    pub(super) interrupts: u8,
    pub(super) fifos: u8,
    pub(super) modem_control: u8,
    pub(super) scratch: u8,
    /// 1: the divisor could not be read, and stays as the previous stage set it. Else 0.
    pub(super) has_unknown_divisor: u8,
}

/// A 16550 UART.
#[derive(Debug)]
pub struct Ns16550<R> {
    registers: R,
    shift: u32,
    is_wide: bool,
}

impl<R: Registers<u8> + Registers<u32>> Ns16550<R> {
    /// The UART in `described`, with its registers.
    pub fn new(registers: R, described: &devicetree::Ns16550) -> Self {
        Ns16550 {
            registers,
            shift: described.shift,
            is_wide: described.width == 4,
        }
    }

    fn read(&self, register: u64) -> u8 {
        let offset = register << self.shift;
        if self.is_wide {
            let word: u32 = self.registers.read(offset);
            word.to_le_bytes()[0]
        } else {
            self.registers.read(offset)
        }
    }

    fn write(&self, register: u64, value: u8) {
        let offset = register << self.shift;
        if self.is_wide {
            self.registers.write(offset, u32::from(value));
        } else {
            self.registers.write(offset, value);
        }
    }

    /// Captures the OS's settings. Bytes in the FIFOs are not kept.
    pub fn capture(&self) -> Ns16550State {
        let line_control = self.read(register::LCR);
        let divisor = self.open_divisor(line_control).then(|| {
            let divisor = [self.read(register::DATA), self.read(register::IER)];
            self.write(register::LCR, line_control & !DIVISOR_OPEN);
            divisor
        });
        let interrupts = self.read(register::IER);
        self.write(register::LCR, line_control);
        Ns16550State {
            line_control,
            divisor: divisor.unwrap_or_default(),
            interrupts,
            fifos: self.read(register::FIFO) & FIFOS_ON,
            modem_control: self.read(register::MCR),
            scratch: self.read(register::SCR),
            has_unknown_divisor: divisor.is_none().into(),
        }
    }

    /// Restores the settings. Interrupts come last: an empty transmitter then interrupts again.
    pub fn restore(&self, state: &Ns16550State) {
        let is_known = state.has_unknown_divisor == 0;
        if is_known && self.open_divisor(state.line_control) {
            self.write(register::DATA, state.divisor[0]);
            self.write(register::IER, state.divisor[1]);
        }
        self.write(register::LCR, state.line_control & !DIVISOR_OPEN);
        let fifos = if state.fifos == 0 { 0 } else { FIFO_CONTROL };
        self.write(register::FIFO, fifos);
        self.write(register::MCR, state.modem_control);
        self.write(register::SCR, state.scratch);
        self.write(register::IER, state.interrupts);
        self.write(register::LCR, state.line_control);
    }

    /// Opens the divisor beside these line settings. Returns whether it is open: otherwise an
    /// access to the divisor would receive or send a byte.
    fn open_divisor(&self, line_control: u8) -> bool {
        (0..ATTEMPTS).any(|_| {
            self.write(register::LCR, line_control | DIVISOR_OPEN);
            self.read(register::LCR) & DIVISOR_OPEN != 0
        })
    }
}

impl<R: Registers<u8> + Registers<u32>> Chip for Ns16550<R> {
    fn is_ready(&self) -> bool {
        self.read(register::LSR) & line_status::TRANSMIT_EMPTY != 0
    }

    fn put(&self, byte: u8) {
        self.write(register::DATA, byte);
    }

    fn is_being_set(&self) -> bool {
        self.read(register::LCR) & DIVISOR_OPEN != 0
    }

    /// Closes the divisor around the byte.
    fn put_amid_settings(&self, byte: u8) {
        let line_control = self.read(register::LCR);
        self.write(register::LCR, line_control & !DIVISOR_OPEN);
        self.write(register::DATA, byte);
        self.write(register::LCR, line_control);
    }

    fn take(&self) -> Option<u8> {
        (self.read(register::LSR) & line_status::DATA_READY != 0).then(|| self.read(register::DATA))
    }

    fn is_idle(&self) -> bool {
        self.read(register::LSR) & line_status::IDLE != 0
    }

    /// A break's null byte is consumed.
    fn events(&self) -> LineEvents {
        let status = self.read(register::LSR);
        let line_break = status & line_status::BREAK != 0;
        if line_break {
            self.read(register::DATA);
        }
        LineEvents {
            input: !line_break && status & line_status::DATA_READY != 0,
            line_break,
        }
    }
}
