//! 16550 UARTs, shared with the OS's driver.

use core::fmt;

use poorwill_devicetree as devicetree;
use poorwill_log::PrintedLine;
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Registers;

/// Maximum number of polls for all bytes of a call; the remaining bytes are dropped. There may be
/// no clock yet for a timeout, and a stuck console must not stop the machine: its hart holds a lock
/// that others wait for. At 115,200 baud 256 bytes take an eighth of these polls.
const PATIENCE: u32 = 1_000_000;

/// Maximum number of polls of a call that must not wait for the transmitter.
pub const BRIEF_POLLS: u32 = 16;

/// Time in milliseconds for which an unfinished line of another writer, or an open divisor, holds
/// back the lines of domains without the UART.
pub const HOLD_BACK_MS: u64 = 100;

/// Registers by number (16550 data sheet, "Registers").
mod register {
    /// Receive buffer (read) and transmit holding (write).
    pub(super) const DATA: u64 = 0;
    /// Interrupt enable; with the divisor open, the divisor's high half.
    pub(super) const IER: u64 = 1;
    /// Interrupt identification (read) and FIFO control (write).
    pub(super) const FIFO: u64 = 2;
    /// Line control.
    pub(super) const LCR: u64 = 3;
    /// Modem control.
    pub(super) const MCR: u64 = 4;
    /// Line status.
    pub(super) const LSR: u64 = 5;
    /// Scratch.
    pub(super) const SCR: u64 = 7;
}

/// Line control: the divisor is at DATA and IER.
const DIVISOR_OPEN: u8 = 1 << 7;

/// Interrupt identification: the FIFOs are on.
const FIFOS_ON: u8 = 3 << 6;

/// Maximum number of attempts to open the divisor. DesignWare's UART ignores writes to line control
/// while it transfers a byte. At 115,200 baud a full FIFO takes 1.4 ms, a twentieth of these.
const ATTEMPTS: u32 = 20_000;

/// FIFO control: FIFOs on, with a threshold of eight bytes. The OS's value cannot be read back.
const FIFO_CONTROL: u8 = 1 << 7 | 1;

mod line_status {
    pub(super) const DATA_READY: u8 = 1 << 0;
    pub(super) const BREAK: u8 = 1 << 4;
    pub(super) const TRANSMIT_EMPTY: u8 = 1 << 5;
    /// The shift register is empty, too.
    pub(super) const IDLE: u8 = 1 << 6;
}

/// Why not all bytes were sent; the rest was dropped.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsent {
    /// The transmitter accepts no more bytes, for example because of flow control.
    #[error("the UART accepted only {sent} bytes")]
    Stuck { sent: usize },
    #[error("the transfer ended after {sent} bytes")]
    Ended { sent: usize },
}

/// Why a byte was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stuck,
    Ended,
}

impl End {
    fn after(self, sent: usize) -> Unsent {
        match self {
            End::Stuck => Unsent::Stuck { sent },
            End::Ended => Unsent::Ended { sent },
        }
    }
}

/// Returns whether a transfer may continue; called repeatedly.
pub type GoesOn<'a> = &'a dyn Fn() -> bool;

/// The OS's settings.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct UartState {
    line_control: u8,
    divisor: [u8; 2],
    interrupts: u8,
    fifos: u8,
    modem_control: u8,
    scratch: u8,
    /// 1: the divisor could not be read, and stays as the previous stage set it. Else 0.
    has_unknown_divisor: u8,
}

/// A line condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineEvents {
    /// A byte was received.
    pub input: bool,
    /// A break: the line was held low for longer than a byte.
    pub line_break: bool,
}

/// A 16550 UART as the previous stage set it up. Its line settings stay unchanged, since the OS's
/// driver may be using it.
#[derive(Debug)]
pub struct Uart<R> {
    registers: R,
    shift: u32,
    is_wide: bool,
    /// The last byte was dropped, so the next call polls only once.
    is_stuck: bool,
    is_amid_line: bool,
    /// The rest of a line that [`Uart::print_some`] has begun.
    begun: PrintedLine,
    /// The time in milliseconds since which [`Uart::print_some`] is held back.
    held_back_since: Option<u64>,
}

/// The result of [`Uart::print_some`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed {
    /// A byte was sent.
    pub is_some: bool,
    /// All lines are printed.
    pub is_all: bool,
}

impl<R: Registers<u8> + Registers<u32>> Uart<R> {
    /// The UART in `described`, with its registers.
    pub fn new(registers: R, described: &devicetree::Uart) -> Self {
        Uart {
            registers,
            shift: described.shift,
            is_wide: described.width == 4,
            is_stuck: false,
            is_amid_line: false,
            begun: PrintedLine::new_const(),
            held_back_since: None,
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

    /// Sends raw bytes. Polls the transmitter at most a million times for all of them, and only
    /// once if it was stuck before. At 115,200 baud 256 bytes take 22 ms, so `goes_on` is called
    /// before each byte and at each poll.
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    pub fn send(&mut self, bytes: &[u8], goes_on: GoesOn<'_>) -> Result<(), Unsent> {
        let mut polls = self.polls();
        (self.end_line(&mut polls, goes_on)).map_err(|end| end.after(0))?;
        for (sent, byte) in bytes.iter().enumerate() {
            let put = self.put(*byte, &mut polls, goes_on);
            put.map_err(|end| end.after(sent))?;
        }
        Ok(())
    }

    /// Prints lines of a domain without the UART. `next` moves the next line to an empty place, and
    /// returns whether there is one. Polls the transmitter at most [`BRIEF_POLLS`] times, so a line
    /// may take several calls. Other text ends the line first. While the divisor is open, or within
    /// a line of another writer, it prints nothing, for [`HOLD_BACK_MS`]: `now_ms` is the machine's
    /// time. After that it ends the other line, or closes the divisor around each of its bytes.
    pub fn print_some(
        &mut self,
        next: &mut dyn FnMut(&mut PrintedLine) -> bool,
        now_ms: u64,
        goes_on: GoesOn<'_>,
    ) -> Printed {
        let mut polls = BRIEF_POLLS;
        let mut printed = Printed {
            is_some: false,
            is_all: false,
        };
        if self.is_held_back(now_ms) {
            return printed;
        }
        let is_overdue = self.held_back_since.is_some();
        loop {
            if self.begun.is_empty() {
                if !next(&mut self.begun) {
                    printed.is_all = true;
                    return printed;
                }
                if self.is_amid_line {
                    // A printed line has room for the end of the one before.
                    self.begun.insert(0, b'\n');
                    self.begun.insert(0, b'\r');
                }
            }
            let mut sent = 0;
            while let Some(byte) = self.begun.get(sent).copied() {
                if !goes_on() || !self.put_briefly(byte, &mut polls, is_overdue) {
                    break;
                }
                sent += 1;
            }
            self.begun.drain(..sent);
            printed.is_some |= sent > 0;
            if !self.begun.is_empty() {
                return printed;
            }
        }
    }

    /// Returns whether another writer's line or the open divisor still holds lines back.
    fn is_held_back(&mut self, now_ms: u64) -> bool {
        let is_in_line = self.begun.is_empty() && self.is_amid_line;
        if !is_in_line && self.read(register::LCR) & DIVISOR_OPEN == 0 {
            self.held_back_since = None;
            return false;
        }
        let since = *self.held_back_since.get_or_insert(now_ms);
        now_ms.saturating_sub(since) < HOLD_BACK_MS
    }

    /// Ends a line that [`Self::print_some`] has begun.
    fn end_line(&mut self, polls: &mut u32, goes_on: GoesOn<'_>) -> Result<(), End> {
        while let Some(byte) = self.begun.first().copied() {
            match self.put(byte, polls, goes_on) {
                Ok(()) => drop(self.begun.remove(0)),
                Err(End::Ended) => return Err(End::Ended),
                // A stuck transmitter loses the line.
                Err(End::Stuck) => {
                    self.begun.clear();
                    return Err(End::Stuck);
                }
            }
        }
        Ok(())
    }

    /// Sends a byte if the transmitter accepts it within these polls, and the divisor is closed.
    /// `may_close` allows to close an open one for the byte.
    fn put_briefly(&mut self, byte: u8, polls: &mut u32, may_close: bool) -> bool {
        while *polls > 0 {
            *polls -= 1;
            if self.read(register::LSR) & line_status::TRANSMIT_EMPTY != 0 {
                let line_control = self.read(register::LCR);
                let is_open = line_control & DIVISOR_OPEN != 0;
                if is_open && !may_close {
                    return false;
                }
                if is_open {
                    self.write(register::LCR, line_control & !DIVISOR_OPEN);
                }
                self.write(register::DATA, byte);
                if is_open {
                    self.write(register::LCR, line_control);
                }
                self.is_stuck = false;
                self.is_amid_line = byte != b'\n';
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Writes text while `goes_on` returns true.
    pub fn text<'u>(&'u mut self, goes_on: GoesOn<'u>) -> Text<'u, R> {
        let mut polls = self.polls();
        // Without an end of that line the text has none, too.
        _ = self.end_line(&mut polls, goes_on);
        Text {
            uart: self,
            goes_on,
        }
    }

    /// Returns whether the last byte sent did not end a line.
    pub fn is_amid_line(&self) -> bool {
        self.is_amid_line
    }

    fn polls(&self) -> u32 {
        if self.is_stuck { 1 } else { PATIENCE }
    }

    fn put(&mut self, byte: u8, polls: &mut u32, goes_on: GoesOn<'_>) -> Result<(), End> {
        while *polls > 0 {
            if !goes_on() {
                return Err(End::Ended);
            }
            if self.read(register::LSR) & line_status::TRANSMIT_EMPTY != 0 {
                self.write(register::DATA, byte);
                if self.is_stuck {
                    self.is_stuck = false;
                    *polls = PATIENCE;
                }
                self.is_amid_line = byte != b'\n';
                return Ok(());
            }
            *polls -= 1;
            core::hint::spin_loop();
        }
        self.is_stuck = true;
        Err(End::Stuck)
    }

    /// Fills `buffer` with received bytes; returns their number.
    pub fn receive(&self, buffer: &mut [u8]) -> usize {
        for (filled, place) in buffer.iter_mut().enumerate() {
            match self.get() {
                Some(byte) => *place = byte,
                None => return filled,
            }
        }
        buffer.len()
    }

    fn get(&self) -> Option<u8> {
        (self.read(register::LSR) & line_status::DATA_READY != 0).then(|| self.read(register::DATA))
    }

    /// Captures the OS's settings. Bytes in the FIFOs are not kept.
    pub fn capture(&self) -> UartState {
        let line_control = self.read(register::LCR);
        let divisor = self.open_divisor(line_control).then(|| {
            let divisor = [self.read(register::DATA), self.read(register::IER)];
            self.write(register::LCR, line_control & !DIVISOR_OPEN);
            divisor
        });
        let interrupts = self.read(register::IER);
        self.write(register::LCR, line_control);
        UartState {
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
    pub fn restore(&self, state: &UartState) {
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

    /// Waits until all bytes have left, with the limit of a call. A change of the settings would
    /// destroy the rest.
    pub fn drain(&self) {
        let mut polls = 0..self.polls();
        polls.any(|_| self.read(register::LSR) & line_status::IDLE != 0);
    }

    /// Condition of the line. A break is reported once, and its null byte is consumed. A received
    /// byte stays for the OS.
    pub fn events(&self) -> LineEvents {
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

/// Text for a UART, with a carriage return before each line feed. A stuck transmitter ends the
/// text.
#[allow(missing_debug_implementations, reason = "a function cannot be shown")]
pub struct Text<'u, R> {
    uart: &'u mut Uart<R>,
    goes_on: GoesOn<'u>,
}

impl<R: Registers<u8> + Registers<u32>> fmt::Write for Text<'_, R> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Text { uart, goes_on } = self;
        let mut polls = uart.polls();
        let mut put = |byte| uart.put(byte, &mut polls, *goes_on).is_ok();
        let mut put_text = |byte| (byte != b'\n' || put(b'\r')) && put(byte);
        text.bytes()
            .all(&mut put_text)
            .then_some(())
            .ok_or(fmt::Error)
    }
}

#[cfg(test)]
mod tests;
