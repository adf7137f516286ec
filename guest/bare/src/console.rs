//! The SBI's debug console.

use core::fmt::{self, Write};

use arrayvec::ArrayString;
use sbi_rt::Physical;

/// A line of at most `N` bytes. A longer text is cut.
pub fn line<const N: usize>(text: fmt::Arguments<'_>) -> ArrayString<N> {
    let mut line = ArrayString::new();
    let _is_whole = line.write_fmt(text).is_ok();
    line.truncate(N - 1);
    line.push('\n');
    line
}

/// Offers bytes to the console. Returns the number of those that it says to have taken; `None` if
/// the call fails.
pub fn write(bytes: &[u8]) -> Option<usize> {
    let address = bytes.as_ptr().expose_provenance();
    sbi_rt::console_write(Physical::new(bytes.len(), address, 0)).ok()
}
