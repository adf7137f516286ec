//! The problems that a command names.

use core::fmt::{self, Write};

/// Writes a problem. If this fails, there is no other place for it.
pub(crate) fn complain(complaints: &mut dyn Write, text: fmt::Arguments<'_>) {
    let _nobody_listens = writeln!(complaints, "poorwill-guest: {text}");
}
