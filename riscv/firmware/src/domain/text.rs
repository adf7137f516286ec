//! Output of a domain.

use core::fmt;
use core::sync::atomic::Ordering;

use poorwill_drivers::uart::Printed;
use poorwill_log::LineBudget;
use spin::Mutex;

use super::live::LiveDomain;
use super::waiting::Waiting;
use crate::platform::{self, console};

/// Attempts without a printed byte after which a hart leaves text waiting. At 115,200 baud a byte
/// takes fewer.
const PRINT_FAILURES: u32 = 1000;

/// Output of a domain. A domain without the UART never waits for the console, and no other domain's
/// hart prints its text.
impl LiveDomain {
    /// Takes text of a domain without the UART; returns the number of bytes taken or dropped, at
    /// least one.
    pub(crate) fn take_text(&self, bytes: &[u8]) -> usize {
        let taken = self.text.lock().own.take(bytes);
        self.has_text.store(true, Ordering::Relaxed);
        taken
    }

    /// Writes a line that a call of the domain causes to the log and the console. Calls may be
    /// endless, so the lines of a second are bounded if there are other domains.
    pub(crate) fn say(&self, line: fmt::Arguments<'_>) {
        self.say_about(&self.name, line);
    }

    /// As [`say`](Self::say), a line about the domain `about`, which alone reads it in the log.
    pub(crate) fn say_about(&self, about: &str, line: fmt::Arguments<'_>) {
        let ask = |budget: &Mutex<LineBudget>| budget.lock().ask(platform::milliseconds());
        let Some(left_out) = self.budget.as_ref().map_or(Some(0), ask) else {
            return;
        };
        if left_out > 0 {
            let name = &self.name;
            self.write(
                name,
                format_args!("domain {name}: {left_out} lines left out"),
            );
        }
        self.write(about, line);
    }

    /// As [`say`](Self::say). A domain without the UART waits for no other domain: while another hart
    /// has the log, its line is left out, and false returned. Its lines are not bounded here.
    pub(crate) fn say_at_once(&self, line: fmt::Arguments<'_>) -> bool {
        if self.has_console {
            self.say(line);
            return true;
        }
        let is_free = console::try_log_about(&self.name, line);
        if is_free {
            self.print_later(line);
        }
        is_free
    }

    fn write(&self, about: &str, line: fmt::Arguments<'_>) {
        if self.has_console {
            return console::line_about(about, line);
        }
        console::log_about(about, line);
        self.print_later(line);
    }

    fn print_later(&self, line: fmt::Arguments<'_>) {
        self.text.lock().firmware.take_line(line);
        self.has_text.store(true, Ordering::Relaxed);
    }

    /// Returns whether a part of the domain's text is not printed yet.
    pub(crate) fn has_text(&self) -> bool {
        self.has_text.load(Ordering::Relaxed)
    }

    /// Prints some of the domain's text, without a wait; see [`console::print_some`].
    pub(crate) fn print_some(&self) -> Printed {
        let mut text = self.text.lock();
        let Waiting { own, firmware } = &mut *text;
        let printed = console::print_some(&mut |line| {
            firmware.next("poorwill", line) || own.next(&self.name, line)
        });
        if printed.is_all {
            self.has_text.store(false, Ordering::Relaxed);
        }
        printed
    }

    /// Prints the domain's text, for a hart without other work. Text that a busy console does not
    /// accept still waits after it.
    pub(crate) fn print_all(&self) {
        let mut failures = 0;
        while self.has_text() && failures < PRINT_FAILURES {
            failures = match self.print_some().is_some {
                true => 0,
                false => failures + 1,
            };
        }
    }
}
