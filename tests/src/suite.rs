//! Arguments and environment of the test programs.

use anyhow::Context;

/// Whether the program's arguments name this row by a part of its name, or name none.
#[must_use]
pub fn is_chosen(row: &str) -> bool {
    let words = std::env::args().skip(1);
    let mut words = words.filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| row.contains(&word))
}

/// The number in an environment variable; `None`: it is not set.
///
/// # Errors
///
/// The text is no number.
pub fn number(variable: &str) -> anyhow::Result<Option<usize>> {
    let text = std::env::var(variable).ok();
    let number = text.map(|text| text.parse());
    (number.transpose()).with_context(|| format!("{variable} is no number"))
}
