//! The table of parameters in docs/memory.md.
#![forbid(unsafe_code)]

use std::path::Path;

use poorwill_oc_pmem::{Parameter, TABLE};

fn row(parameter: &Parameter) -> String {
    format!(
        "| `{}` | {} | {} | {} | {} | {} |",
        parameter.name,
        parameter.base_text(),
        parameter.unit,
        parameter.range(),
        parameter.about,
        parameter.source
    )
}

/// Set `POORWILL_BLESS` to write the rows.
#[test]
fn the_page_has_all_parameters() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/memory.md");
    let page = std::fs::read_to_string(&file).expect("the page");
    let head = "|---|---:|---|---|---|---|\n";
    let (before, after) = page.split_once(head).expect("the table's head");
    let (found, rest) = after.split_once("\n\n").expect("the table's end");
    let expected: Vec<_> = TABLE.iter().map(row).collect();
    if std::env::var_os("POORWILL_BLESS").is_some() {
        let text = format!("{before}{head}{}\n\n{rest}", expected.join("\n"));
        std::fs::write(&file, text).expect("it is written");
        return;
    }
    let rows: Vec<_> = found.lines().collect();
    assert_eq!(rows, expected, "run this test with POORWILL_BLESS=1");
}
