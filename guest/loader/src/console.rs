//! The loader's messages, and the power-off if it cannot start a kernel.

use core::fmt;

/// The SBI's debug console. A call with a whole text must give its address in memory, but the
/// loader's texts are in flash. So each byte is written by a call of its own.
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
    // If the console fails, there is no other place for the message.
    let _nobody_listens = Console.write_fmt(format_args!("poorwill-loader: {text}\n"));
}

/// Prints one line; the arguments are those of `format!`.
macro_rules! say {
    ($($arg:tt)*) => { $crate::console::print_line(format_args!($($arg)*)) };
}
pub(crate) use say;

/// Switches the machine off. A reset would only start the loader again.
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
