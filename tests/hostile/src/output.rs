//! The guest's lines on the console.

use core::fmt;

use poorwill_bare::console;

/// Prints a line by DBCN; a call takes a part of it.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    print(&console::line::<160>(text));
}

/// Prints text by DBCN.
pub(crate) fn print(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        rest = &rest[console::write(rest).unwrap_or(0).min(rest.len())..];
    }
}
