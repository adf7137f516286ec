//! The loader's messages, and the end of a machine that it cannot start.

use core::fmt;

/// The SBI's debug console. It takes text from memory only, and the loader's text lies in flash: so
/// each byte is a call of its own.
#[derive(Debug)]
pub(crate) struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let written = sbi_rt::console_write_byte(byte);
            written.ok().ok_or(fmt::Error)?;
        }
        Ok(())
    }
}

/// Prints one line, `poorwill-loader: …`.
pub(crate) fn print_line(text: fmt::Arguments<'_>) {
    use fmt::Write;
    // If the console fails, there is no other place to report it.
    let _nobody_listens = Console.write_fmt(format_args!("poorwill-loader: {text}\n"));
}

/// Prints one line, in `format!`'s syntax.
macro_rules! say {
    ($($arg:tt)*) => { $crate::console::print_line(format_args!($($arg)*)) };
}
pub(crate) use say;

/// Switches the machine off: a reset would only start the loader again.
pub(crate) fn fail() -> ! {
    let answers = [
        sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::SystemFailure),
        sbi_rt::system_reset(sbi_rt::ColdReboot, sbi_rt::SystemFailure),
    ];
    say!("the machine cannot be switched off: {answers:?}");
    loop {
        // SAFETY: `wfi` changes no state.
        unsafe { core::arch::asm!("wfi") };
    }
}
