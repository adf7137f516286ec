//! Short lines for the SBI's debug console.

use core::fmt;

use arrayvec::ArrayString;
use poorwill_bare::{console, hart};

/// Calls without a result after which a line is dropped: a firmware may serve calls late.
const PATIENCE: u32 = 1000;

/// The line that is to be printed. The console never delays a heartbeat by more than a call.
#[derive(Debug, Default)]
pub(crate) struct Console {
    line: ArrayString<160>,
    written: usize,
    failures: u32,
}

impl Console {
    /// Replaces the line by `critical: TEXT`.
    pub(crate) fn say(&mut self, text: fmt::Arguments<'_>) {
        *self = Console {
            line: console::line(format_args!("critical: {text}")),
            ..Console::default()
        };
    }

    /// Calls DBCN once if bytes are left; returns whether some are left after it.
    pub(crate) fn flush(&mut self) -> bool {
        let rest = &self.line.as_bytes()[self.written..];
        if rest.is_empty() || self.failures >= PATIENCE {
            return false;
        }
        let count = console::write(rest).unwrap_or(0).min(rest.len());
        self.written += count;
        self.failures = if count == 0 { self.failures + 1 } else { 0 };
        true
    }
}

/// Prints a last line, and ends the guest. The machine's other domains run on.
pub(crate) fn fail(text: fmt::Arguments<'_>) -> ! {
    let mut console = Console::default();
    console.say(text);
    while console.flush() {}
    sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::SystemFailure);
    hart::halt()
}
