//! The console: a UART, shared with the OS's driver.

use core::borrow::Borrow;
use core::fmt::{self, Write};

use poorwill_arch::{Mmio, Time};
use poorwill_devicetree as devicetree;
use poorwill_drivers::uart::{AnyUart, Chip, Line, LineEvents, Printed, UartState, Unsent};
use poorwill_log::{Log, LogLine, PrintedLine};
use poorwill_sleep::NotKept;
use spin::Mutex;

use super::devices::milliseconds;
use super::power_fail;
use poorwill_state::{KeepValue, Saving, Section};

/// The console of the machine. Output is dropped until it is set.
static CONSOLE: Mutex<Option<Line<AnyUart<Mmio>>>> = Mutex::new(None);

/// The log, which gets each line that the console gets.
static LOG: Mutex<Option<&'static mut Log>> = Mutex::new(None);

/// Sets the console.
///
/// # Safety
///
/// `uart` is the console of this machine in the device tree.
pub(crate) unsafe fn start(uart: devicetree::Uart) {
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(uart.base()) };
    let uart = AnyUart::new(registers, &uart);
    uart.turn_on();
    *CONSOLE.lock() = Some(Line::new(uart));
}

/// Sets the log, once. Reports a panic that ended the last start.
pub(super) fn start_log(log: &'static mut Log) {
    let panic_line = log.begin();
    *LOG.lock() = Some(log);
    if let Some(panic_line) = panic_line {
        say!("the previous boot panicked: {panic_line}");
    }
}

/// Runs `job` with the log; `None` if the log is not set yet.
pub(crate) fn with_log<R>(job: impl FnOnce(&mut Log) -> R) -> Option<R> {
    LOG.lock().as_mut().map(|log| job(log))
}

fn power_is_good() -> bool {
    power_fail::check().is_ok()
}

/// Sends the OS's bytes unchanged, while the power is good. Without a console they are dropped.
///
/// # Errors
///
/// [`Unsent`].
pub(crate) fn send(bytes: &[u8]) -> Result<(), Unsent> {
    CONSOLE
        .lock()
        .as_mut()
        .map_or(Ok(()), |uart| uart.send(bytes, &power_is_good))
}

/// Prints lines of a domain without the console's UART, if the console is free; see
/// [`Line::print_some`].
pub(crate) fn print_some(next: &mut dyn FnMut(&mut PrintedLine) -> bool) -> Printed {
    match CONSOLE.try_lock().as_deref_mut() {
        Some(Some(uart)) => uart.print_some(next, milliseconds(), &power_is_good),
        _ => Printed {
            is_some: false,
            is_all: false,
        },
    }
}

/// Fills `buffer` with received bytes; returns their number.
pub(crate) fn receive(buffer: &mut [u8]) -> usize {
    (CONSOLE.lock().as_ref()).map_or(0, |uart| uart.receive(buffer))
}

/// Returns whether the machine has a console.
pub(crate) fn is_there() -> bool {
    CONSOLE.lock().is_some()
}

/// Lets [`line_events`] report each byte, until [`close_input`].
pub(crate) fn open_input() {
    if let Some(uart) = CONSOLE.lock().as_mut() {
        uart.chip_mut().open_input();
    }
}

/// Restores the OS's settings after [`open_input`].
pub(crate) fn close_input() {
    if let Some(uart) = CONSOLE.lock().as_mut() {
        uart.chip_mut().close_input();
    }
}

/// Events on the console's line since the last call. A break is reported once.
pub(crate) fn line_events() -> LineEvents {
    (CONSOLE.lock().as_ref()).map_or_else(LineEvents::default, |uart| uart.chip().events())
}

/// Runs `job` with the console's UART, if there is one.
pub(super) fn with_uart<R>(job: impl FnOnce(&AnyUart<Mmio>) -> R) -> Option<R> {
    CONSOLE.lock().as_ref().map(|uart| job(uart.chip()))
}

/// Restores the OS's settings, after the firmware's last line has left.
pub(super) fn restore(state: &UartState) {
    if let Some(uart) = CONSOLE.lock().as_ref() {
        uart.drain();
        uart.chip().restore(state);
    }
}

/// Waits for the last byte to leave: a power-off or a reset would destroy it. If the power fails, there is
/// no time for that.
pub(super) fn drain() {
    if !power_fail::noticed() {
        CONSOLE.lock().as_ref().inspect(|uart| uart.drain());
    }
}

/// Marks that the last text did not end a line. Go ends the line.
pub(crate) struct AmidLine;

impl KeepValue for AmidLine {
    type Value = [u8; 0];
    const SECTION: Section = (u32::from_le_bytes(*b"LINE"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<[u8; 0]>>, NotKept> {
        let is_amid_line = CONSOLE.lock().as_ref().is_some_and(Line::is_amid_line);
        Ok(is_amid_line.then_some([]))
    }
}

/// Waits for a key for at most `ms` milliseconds, or until the power fails. Consumes the key;
/// returns whether there was one.
pub(crate) fn key_within(ms: u32, time: &Time) -> bool {
    let ticks = time.ticks_in(u64::from(ms) * 1_000_000);
    let began = time.ticks();
    let mut key = [0];
    while receive(&mut key) == 0 {
        if time.ticks().saturating_sub(began) >= ticks || !power_is_good() {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

/// Writes a line to the log.
fn log(line: fmt::Arguments<'_>) {
    let line = LogLine::new(milliseconds(), line);
    with_log(|log| log.add(&line));
}

/// Writes a line about a domain to the log. No other domain reads it there.
pub(crate) fn log_about(domain: &str, line: fmt::Arguments<'_>) {
    let line = LogLine::about(domain, milliseconds(), line);
    with_log(|log| log.add(&line));
}

/// As [`log_about`], without a wait. Returns false if another hart has the log.
pub(crate) fn try_log_about(domain: &str, line: fmt::Arguments<'_>) -> bool {
    let line = LogLine::about(domain, super::milliseconds(), line);
    let mut log = LOG.try_lock();
    if let Some(Some(log)) = log.as_deref_mut() {
        log.add(&line);
    }
    log.is_some()
}

/// Writes a line about a domain to the log and the console.
pub(crate) fn line_about(domain: &str, line: fmt::Arguments<'_>) {
    log_about(domain, line);
    write(format_args!("poorwill: {line}\n"));
}

/// Writes a line to the log and the console; see [`say!`].
pub(crate) fn line(line: fmt::Arguments<'_>) {
    log(line);
    write(format_args!("poorwill: {line}\n"));
}

/// Writes to the console; see [`print!`].
pub(crate) fn write(arguments: fmt::Arguments<'_>) {
    // A line takes milliseconds, and the power lasts for about sixteen. After a power failure no
    // line begins, a line in progress ends, and a hart's wait for the console ends.
    if power_fail::noticed() {
        return;
    }
    if let Some(uart) = CONSOLE.lock().as_mut() {
        // If the console is stuck, the rest of the line is dropped. No other output could report
        // that.
        let mut text = uart.text(&power_is_good);
        text.write_fmt(arguments).unwrap_or_default();
    }
}

/// Frees the console and the log for a last message, even if another hart holds them.
///
/// # Safety
///
/// Only for a hart that will not return: the holder's line may be torn apart. The next start
/// checks the log.
pub(crate) unsafe fn seize() {
    // SAFETY: passed on to the caller.
    unsafe {
        if CONSOLE.is_locked() {
            CONSOLE.force_unlock();
        }
        if LOG.is_locked() {
            LOG.force_unlock();
        }
    }
}

/// Prints to the console.
macro_rules! print {
    ($($argument:tt)*) => { $crate::platform::console::write(format_args!($($argument)*)) };
}

/// Prints a line to the console, under Poorwill's name.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::platform::console::line(format_args!($($argument)*))
    };
}

pub(crate) use {print, say};
