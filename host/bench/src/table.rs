//! Tables for the terminal, which are also Markdown.

use comfy_table::{CellAlignment, Row, Table, presets};

/// A table whose first `words` columns are words, and whose others are numbers.
#[must_use]
pub fn table(heads: impl Into<Row>, words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(heads);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
