//! Lines on the console, through the SBI's debug console.

use core::fmt::{self, Write};
use poorwill_bare::console;

/// The debug console as a place to write text to.
#[derive(Debug)]
pub(crate) struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            // The call may take fewer bytes than offered, but an error is final.
            let written = console::write(rest).ok_or(fmt::Error)?;
            rest = rest.get(written..).ok_or(fmt::Error)?;
        }
        Ok(())
    }
}

/// Collects one line, so that the lines of several harts do not mix.
struct Line(arrayvec::ArrayString<240>);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.0.remaining_capacity().min(text.len());
        // A line that is too long is cut: it is for reading, not for parsing.
        let cut = (0..=room).rev().find(|&at| text.is_char_boundary(at));
        self.0.push_str(&text[..cut.unwrap_or(0)]);
        Ok(())
    }
}

/// Prints one line, `test kernel: …`.
pub(crate) fn print_line(text: fmt::Arguments) {
    let mut line = Line(arrayvec::ArrayString::new());
    // Neither can fail in a way that could be told on this very console.
    let _ = line.write_fmt(text);
    let _ = Console.write_fmt(format_args!("test kernel: {}\n", line.0));
}

/// Prints one line on the console, in `format!`'s syntax.
macro_rules! say {
    ($($arg:tt)*) => { $crate::console::print_line(format_args!($($arg)*)) };
}
pub(crate) use say;

/// `sbi-testing` reports through the `log` crate.
struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        say!("{}: {}", record.level(), record.args());
    }

    fn flush(&self) {}
}

/// Lets `log`'s records come out as lines.
pub(crate) fn take_log_records() {
    // An error says that it was done before, which is as good.
    let _ = log::set_logger(&Logger);
    log::set_max_level(log::LevelFilter::Debug);
}
