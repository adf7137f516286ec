use poorwill_devicetree::Console;

use super::chip::{Chip, LineEvents};
use super::ns16550::Ns16550;
use super::sifive::{InputControl, Sifive};
use crate::Registers;

/// The console's UART.
#[derive(Debug)]
pub enum ConsoleChip<R> {
    /// A 16550.
    Ns16550(Ns16550<R>),
    /// SiFive's.
    Sifive(Sifive<R>),
}

impl<R: Registers<u8> + Registers<u32>> ConsoleChip<R> {
    /// The UART in `described`, with its registers.
    pub fn new(registers: R, described: &Console) -> Self {
        match described {
            Console::Ns16550(uart) => ConsoleChip::Ns16550(Ns16550::new(registers, uart)),
            Console::Sifive { .. } => ConsoleChip::Sifive(Sifive::start(registers)),
        }
    }

    /// Lets [`Chip::events`] report each byte, also if the OS has closed the receiver. Returns what
    /// [`close_input`](Self::close_input) restores.
    pub fn open_input(&self) -> Option<InputControl> {
        match self {
            ConsoleChip::Ns16550(_) => None,
            ConsoleChip::Sifive(uart) => Some(uart.open_input()),
        }
    }

    /// Restores the OS's settings.
    pub fn close_input(&self, before: Option<InputControl>) {
        if let (ConsoleChip::Sifive(uart), Some(before)) = (self, before) {
            uart.close_input(before);
        }
    }
}

/// Calls a method of the chip. Virtual calls for each byte make a sleep in powered memory take 7 % more
/// instructions.
macro_rules! of_chip {
    ($console:expr, $method:ident($($argument:expr)?)) => {
        match $console {
            ConsoleChip::Ns16550(uart) => uart.$method($($argument)?),
            ConsoleChip::Sifive(uart) => uart.$method($($argument)?),
        }
    };
}

impl<R: Registers<u8> + Registers<u32>> Chip for ConsoleChip<R> {
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
