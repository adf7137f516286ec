//! A UART of either kind.

use poorwill_devicetree as devicetree;

use super::chip::{Chip, LineEvents};
use super::ns16550::{Ns16550, Ns16550State};
use super::sifive::{Sifive, SifiveState};
use crate::Registers;

/// The OS's settings of a UART.
#[expect(missing_docs, reason = "the types say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UartState {
    Ns16550(Ns16550State),
    Sifive(SifiveState),
}

/// A UART.
#[derive(Debug)]
pub enum AnyUart<R> {
    /// A 16550.
    Ns16550(Ns16550<R>),
    /// SiFive's.
    Sifive(Sifive<R>),
}

impl<R: Registers<u8> + Registers<u32>> AnyUart<R> {
    /// The UART in `described`, with its registers.
    pub fn new(registers: R, described: &devicetree::Uart) -> Self {
        use devicetree::Uart;
        match described {
            Uart::Ns16550(uart) => AnyUart::Ns16550(Ns16550::new(registers, uart)),
            Uart::Sifive { .. } => AnyUart::Sifive(Sifive::new(registers)),
        }
    }

    /// Prepares the UART for the firmware's text. A 16550 is as the previous stage set it up.
    pub fn turn_on(&self) {
        match self {
            AnyUart::Ns16550(_) => {}
            AnyUart::Sifive(uart) => uart.turn_on(),
        }
    }

    /// Lets [`Chip::events`] report each byte, also if the OS has closed the receiver.
    pub fn open_input(&mut self) {
        match self {
            AnyUart::Ns16550(_) => {}
            AnyUart::Sifive(uart) => uart.open_input(),
        }
    }

    /// Restores the OS's settings after [`open_input`](Self::open_input).
    pub fn close_input(&mut self) {
        match self {
            AnyUart::Ns16550(_) => {}
            AnyUart::Sifive(uart) => uart.close_input(),
        }
    }

    /// Captures the OS's settings. Bytes in the FIFOs are not kept.
    pub fn capture(&self) -> UartState {
        match self {
            AnyUart::Ns16550(uart) => UartState::Ns16550(uart.capture()),
            AnyUart::Sifive(uart) => UartState::Sifive(uart.capture()),
        }
    }

    /// Restores the settings. Those of another kind of UART leave it unchanged.
    pub fn restore(&self, state: &UartState) {
        match (self, state) {
            (AnyUart::Ns16550(uart), UartState::Ns16550(state)) => uart.restore(state),
            (AnyUart::Sifive(uart), UartState::Sifive(state)) => uart.restore(state),
            (AnyUart::Ns16550(_), _) | (AnyUart::Sifive(_), _) => {}
        }
    }
}

/// Calls a method of the chip. Virtual calls for each byte make a sleep in powered memory take 7 % more
/// instructions.
macro_rules! of_chip {
    ($uart:expr, $method:ident($($argument:expr)?)) => {
        match $uart {
            AnyUart::Ns16550(chip) => chip.$method($($argument)?),
            AnyUart::Sifive(chip) => chip.$method($($argument)?),
        }
    };
}

impl<R: Registers<u8> + Registers<u32>> Chip for AnyUart<R> {
    #[inline]
    fn is_ready(&self) -> bool {
        of_chip!(self, is_ready())
    }

    #[inline]
    fn put(&self, byte: u8) {
        of_chip!(self, put(byte));
    }

    fn is_being_set(&self) -> bool {
        of_chip!(self, is_being_set())
    }

    fn put_amid_settings(&self, byte: u8) {
        of_chip!(self, put_amid_settings(byte));
    }

    fn take(&self) -> Option<u8> {
        of_chip!(self, take())
    }

    fn is_idle(&self) -> bool {
        of_chip!(self, is_idle())
    }

    fn events(&self) -> LineEvents {
        of_chip!(self, events())
    }
}
