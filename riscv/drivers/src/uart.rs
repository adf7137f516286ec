//! A serial line of text over a UART, which the OS's driver shares.

mod any;
mod chip;
mod ns16550;
mod sifive;

use core::fmt;

use poorwill_log::PrintedLine;
use thiserror::Error;

pub use any::{AnyUart, UartState};
pub use chip::{Chip, LineEvents};
pub use ns16550::{Ns16550, Ns16550State};
pub use sifive::{Sifive, SifiveState};

/// Maximum number of polls for all bytes of a call; the remaining bytes are dropped. There may be
/// no clock yet for a timeout, and a stuck console must not stop the machine: its hart holds a lock
/// that others wait for. At 115,200 baud 256 bytes take an eighth of these polls.
const PATIENCE: u32 = 1_000_000;

/// Maximum number of polls of a call that must not wait for the transmitter.
pub const BRIEF_POLLS: u32 = 16;

/// Time in milliseconds for which an unfinished line of another writer, or an open divisor, holds
/// back the lines of domains without the UART.
pub const HOLD_BACK_MS: u64 = 100;

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

/// The line over a UART as the previous stage set it up. Its settings stay unchanged, since the OS's
/// driver may be using it.
#[derive(Debug)]
pub struct Line<C> {
    chip: C,
    /// The last byte was dropped, so the next call polls only once.
    is_stuck: bool,
    is_amid_line: bool,
    /// The rest of a line that [`Line::print_some`] has begun.
    begun: PrintedLine,
    /// The time in milliseconds since which [`Line::print_some`] is held back.
    held_back_since: Option<u64>,
}

/// The result of [`Line::print_some`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed {
    /// A byte was sent.
    pub is_some: bool,
    /// All lines are printed.
    pub is_all: bool,
}

impl<C: Chip> Line<C> {
    /// The line over this UART.
    pub fn new(chip: C) -> Self {
        Line {
            chip,
            is_stuck: false,
            is_amid_line: false,
            begun: PrintedLine::new_const(),
            held_back_since: None,
        }
    }

    /// The UART.
    pub fn chip(&self) -> &C {
        &self.chip
    }

    /// The UART, to change its settings.
    pub fn chip_mut(&mut self) -> &mut C {
        &mut self.chip
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
        if !is_in_line && !self.chip.is_being_set() {
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
            if self.chip.is_ready() {
                if !self.chip.is_being_set() {
                    self.chip.put(byte);
                } else if may_close {
                    self.chip.put_amid_settings(byte);
                } else {
                    return false;
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
    pub fn text<'u>(&'u mut self, goes_on: GoesOn<'u>) -> Text<'u, C> {
        let mut polls = self.polls();
        // Without an end of that line the text has none, too.
        _ = self.end_line(&mut polls, goes_on);
        Text {
            line: self,
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
            if self.chip.is_ready() {
                self.chip.put(byte);
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
            match self.chip.take() {
                Some(byte) => *place = byte,
                None => return filled,
            }
        }
        buffer.len()
    }

    /// Waits until all bytes have left, with the limit of a call. A change of the settings would
    /// destroy the rest.
    pub fn drain(&self) {
        let mut polls = 0..self.polls();
        polls.any(|_| self.chip.is_idle());
    }
}

/// Text for a UART, with a carriage return before each line feed. A stuck transmitter ends the
/// text.
#[allow(missing_debug_implementations, reason = "a function cannot be shown")]
pub struct Text<'u, C> {
    line: &'u mut Line<C>,
    goes_on: GoesOn<'u>,
}

impl<C: Chip> fmt::Write for Text<'_, C> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Text { line, goes_on } = self;
        let mut polls = line.polls();
        let mut put = |byte| line.put(byte, &mut polls, *goes_on).is_ok();
        let mut put_text = |byte| (byte != b'\n' || put(b'\r')) && put(byte);
        text.bytes()
            .all(&mut put_text)
            .then_some(())
            .ok_or(fmt::Error)
    }
}

#[cfg(test)]
mod tests;
