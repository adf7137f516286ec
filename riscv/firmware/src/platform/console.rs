//! The console: a UART, shared with the OS's driver.

use core::fmt::{self, Write};

use poorwill_arch::{Mmio, Time};
use poorwill_devicetree as devicetree;
use poorwill_drivers::uart::{LineEvents, Stuck, Uart};
use spin::Mutex;

/// The console of the machine; before it is found, output goes nowhere.
static CONSOLE: Mutex<Option<Uart<Mmio>>> = Mutex::new(None);

/// Takes the console into use.
///
/// # Safety
///
/// `uart` is what the device tree says of this machine's console.
pub(crate) unsafe fn start(uart: devicetree::Uart) {
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(uart.base) };
    *CONSOLE.lock() = Some(Uart::new(registers, &uart));
}

/// Sends the bytes as they are, for the OS. Without a console they go nowhere.
///
/// # Errors
///
/// [`Stuck`].
pub(crate) fn send(bytes: &[u8]) -> Result<(), Stuck> {
    CONSOLE
        .lock()
        .as_mut()
        .map_or(Ok(()), |uart| uart.send(bytes))
}

/// Fills `buffer` with what has arrived; returns how much that was.
pub(crate) fn receive(buffer: &mut [u8]) -> usize {
    (CONSOLE.lock().as_ref()).map_or(0, |uart| uart.receive(buffer))
}

/// Whether the machine has a console.
pub(crate) fn is_there() -> bool {
    CONSOLE.lock().is_some()
}

/// What has come over the console's line. A break is told once.
pub(crate) fn line_events() -> LineEvents {
    (CONSOLE.lock().as_ref()).map_or_else(LineEvents::default, Uart::events)
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
        // What a stuck console does not take is lost: there is nobody to tell.
        uart.write_fmt(arguments).unwrap_or_default();
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
