//! The console: an ns16550a, shared with the OS's driver.

use core::fmt::{self, Write};

use poorwill_devicetree as devicetree;
use spin::Mutex;

use super::mmio::Mmio;
use super::time::Time;

/// The console of the machine; before it is found, output goes nowhere.
static CONSOLE: Mutex<Option<Uart>> = Mutex::new(None);

/// A byte that the UART does not take within so many looks is dropped: a
/// console without a clock must not stop the machine.
const PATIENCE: u32 = 1_000_000;

/// A 16550 UART as the previous stage set it up. Its line settings are left
/// alone, as the OS's driver may be using it.
#[derive(Debug)]
struct Uart {
    registers: Mmio,
    shift: u32,
    wide: bool,
}

mod register {
    /// Receive buffer (read) and transmit holding (write).
    pub(super) const DATA: usize = 0;
    /// Line status.
    pub(super) const LSR: usize = 5;
}

mod line_status {
    pub(super) const DATA_READY: u8 = 1 << 0;
    pub(super) const BREAK: u8 = 1 << 4;
    pub(super) const TRANSMIT_EMPTY: u8 = 1 << 5;
}

impl Uart {
    fn read(&self, register: usize) -> u8 {
        let offset = register << self.shift;
        if self.wide {
            self.registers.read32(offset).to_le_bytes()[0]
        } else {
            self.registers.read8(offset)
        }
    }

    fn write(&self, register: usize, value: u8) {
        let offset = register << self.shift;
        if self.wide {
            self.registers.write32(offset, value.into());
        } else {
            self.registers.write8(offset, value);
        }
    }

    fn put(&self, byte: u8) {
        for _ in 0..PATIENCE {
            if self.read(register::LSR) & line_status::TRANSMIT_EMPTY != 0 {
                self.write(register::DATA, byte);
                return;
            }
            core::hint::spin_loop();
        }
    }

    /// A break comes with a byte that nobody has typed; both are taken. What
    /// was typed stays for the OS.
    fn signs(&self) -> Signs {
        let status = self.read(register::LSR);
        let line_break = status & line_status::BREAK != 0;
        if line_break {
            self.read(register::DATA);
        }
        Signs {
            input: !line_break && status & line_status::DATA_READY != 0,
            line_break,
        }
    }

    fn get(&self) -> Option<u8> {
        (self.read(register::LSR) & line_status::DATA_READY != 0).then(|| self.read(register::DATA))
    }
}

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.put(b'\r');
            }
            self.put(byte);
        }
        Ok(())
    }
}

/// What a line does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Somebody has typed.
    pub(crate) input: bool,
    /// It was held down for longer than a byte: a break.
    pub(crate) line_break: bool,
}

/// Takes the console into use.
///
/// # Safety
///
/// `uart` is what the device tree says of this machine's console.
pub(crate) unsafe fn start(uart: devicetree::Uart) {
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(uart.base) };
    *CONSOLE.lock() = Some(Uart {
        registers,
        shift: uart.shift,
        wide: uart.width == 4,
    });
}

/// Sends the bytes as they are, for the OS.
pub(crate) fn send(bytes: &[u8]) {
    if let Some(uart) = CONSOLE.lock().as_ref() {
        bytes.iter().for_each(|byte| uart.put(*byte));
    }
}

/// Fills `buffer` with what has arrived; returns how much that was.
pub(crate) fn receive(buffer: &mut [u8]) -> usize {
    let console = CONSOLE.lock();
    let Some(uart) = console.as_ref() else {
        return 0;
    };
    let mut filled = 0;
    while let (Some(slot), Some(byte)) = (buffer.get_mut(filled), uart.get()) {
        *slot = byte;
        filled += 1;
    }
    filled
}

/// Whether the machine has a console.
pub(crate) fn is_there() -> bool {
    CONSOLE.lock().is_some()
}

/// What has come over the console's line. A break is told once.
pub(crate) fn signs() -> Signs {
    CONSOLE.lock().as_ref().map(Uart::signs).unwrap_or_default()
}

/// Waits so many ms for a key; takes what was typed.
pub(crate) fn key_within(ms: u32, time: &Time) -> bool {
    let ticks = time.ticks_in(u64::from(ms) * 1_000_000);
    let began = time.ticks();
    let mut key = [0];
    while receive(&mut key) == 0 {
        if time.ticks().saturating_sub(began) >= ticks {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

/// Writes to the console; see [`print!`] and [`say!`].
pub(crate) fn write(arguments: fmt::Arguments<'_>) {
    if let Some(uart) = CONSOLE.lock().as_mut() {
        // The UART's `write_str` never fails.
        let _ = uart.write_fmt(arguments);
    }
}

/// Frees the console for a last message, whoever holds it.
///
/// # Safety
///
/// Only for a hart that will not return: the holder's line may be torn apart.
pub(crate) unsafe fn seize() {
    if CONSOLE.is_locked() {
        // SAFETY: passed on to the caller.
        unsafe { CONSOLE.force_unlock() }
    }
}

/// Prints to the console.
macro_rules! print {
    ($($argument:tt)*) => { $crate::platform::console::write(format_args!($($argument)*)) };
}

/// Prints a line to the console, under Poorwill's name.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::platform::console::write(format_args!("poorwill: {}\n", format_args!($($argument)*)))
    };
}

pub(crate) use {print, say};
