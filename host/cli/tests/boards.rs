//! The table of boards in `docs/platforms.md`, made by `poorwill doctor --tree`.
//!
//! `make boards TREES=FOLDER` writes it from compiled device trees of boards, which are not in the
//! repository. With `POORWILL_TREES=FOLDER` alone this test compares it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const FIRST: &str =
    "| SoC | trees | missing | console | harts | PMP entries | reset | power-off | PCIe | sleeps |";
const LINE: &str = "|---|---|---|---|---|---|---|---|---|---|";

/// The cells of a row after the number of trees, each with all values.
type Cells = Vec<Vec<String>>;

fn doctor(tree: &Path, firmware: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_poorwill"))
        .args(["doctor", "--json", "--tree"])
        .arg(tree)
        .env("POORWILL_FIRMWARE", firmware)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The first name of each device of this purpose.
fn unknown(board: &Value, purpose: &str) -> String {
    let all = array(&board["without_driver"]).iter();
    let all = all.filter(|one| one["purpose"] == purpose);
    let mut names: Vec<_> = all
        .filter_map(|one| one["compatible"][0].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.is_empty() {
        true => "none".to_owned(),
        false => format!("`{}`", names.join("`, `")),
    }
}

/// The cells of a board.
fn cells(board: &Value) -> Vec<String> {
    let findings = array(&board["findings"]).iter();
    let missing = findings.filter(|finding| finding["health"] == "missing");
    let missing = missing.map(|finding| match finding["what"].as_str().unwrap() {
        "time" if unknown(board, "timer") != "none" => {
            format!("a driver for {}", unknown(board, "timer"))
        }
        "time" => "a timer".to_owned(),
        "harts"
            if array(&board["harts"])
                .iter()
                .any(|hart| hart["state"] == "usable") =>
        {
            "fewer harts".to_owned()
        }
        "harts" => "an MMU".to_owned(),
        "firmware" => "another `FIRMWARE_BASE`".to_owned(),
        other => other.to_owned(),
    });
    let missing: Vec<_> = missing.collect();
    let console = match board["console"]["kind"].as_str() {
        Some(kind) => kind.to_owned(),
        None => unknown(board, "stdout"),
    };
    let is_usable = |hart: &&Value| hart["state"] == "usable";
    let (usable, parked): (Vec<_>, Vec<_>) = array(&board["harts"]).iter().partition(is_usable);
    let weak = parked.iter().any(|hart| hart["suits_weak_core"] == true);
    let harts = match (parked.len(), weak) {
        (0, _) => usable.len().to_string(),
        (count, true) => format!("{}, {count} weak", usable.len()),
        (count, false) => format!("{}, {count} parked", usable.len()),
    };
    let plans = array(&board["fences"]["divided"]["plans"]).iter();
    let plans = plans.filter(|plan| plan["vault"] == false && plan["entries"] == 16);
    let used: Vec<_> = plans.map(|plan| plan["used"].to_string()).collect();
    let kind = |switch: &str| match board[switch]["kind"].as_str() {
        Some(kind) => kind.to_owned(),
        None => "none".to_owned(),
    };
    let pci = match array(&board["pci"]).is_empty() {
        true => unknown(board, "pci-host"),
        false => "ECAM".to_owned(),
    };
    let sleeps = array(&board["sleeps"]).iter();
    let sleeps = sleeps.filter(|sleep| sleep["allowed"] != "no");
    let sleeps = sleeps.flat_map(|sleep| array(&sleep["modes"]));
    let sleeps: Vec<_> = sleeps.filter_map(Value::as_str).collect();
    vec![
        missing.join(", "),
        console,
        harts,
        used.join(", "),
        kind("reset"),
        kind("power_off"),
        pci,
        sleeps.join(", "),
    ]
}

/// The table for the trees of a folder: a row for each SoC, which its boards' `compatible` names
/// last.
fn table(folder: &Path, firmware: &Path) -> String {
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut rows = BTreeMap::<String, (usize, Cells)>::new();
    for file in files {
        let board = doctor(&file, firmware);
        let soc = array(&board["compatible"]).last().and_then(Value::as_str);
        let cells = cells(&board);
        let row = rows.entry(soc.unwrap_or("none").to_owned()).or_default();
        row.0 += 1;
        row.1.resize(cells.len(), Vec::new());
        for (all, cell) in row.1.iter_mut().zip(cells) {
            if !all.contains(&cell) {
                all.push(cell);
            }
        }
    }
    let rows = rows.into_iter().map(|(soc, (count, cells))| {
        let cells = cells.into_iter().map(|mut all| {
            all.sort();
            let all = all.into_iter().map(|one| match one.is_empty() {
                true => "–".to_owned(),
                false => one,
            });
            all.collect::<Vec<_>>().join("; ")
        });
        let cells: Vec<_> = cells.collect();
        format!("| `{soc}` | {count} | {} |\n", cells.join(" | "))
    });
    rows.collect()
}

#[test]
fn the_table_of_boards_is_doctors() {
    let Some(folder) = std::env::var_os("POORWILL_TREES") else {
        eprintln!("skipped: POORWILL_TREES names no folder of device trees");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = table(Path::new(&folder), &root.join("build/poorwill.elf"));
    let page = root.join("docs/platforms.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let head = format!("{FIRST}\n{LINE}\n");
    let (before, rest) = text.split_once(&head).expect("the table's head");
    let rows = rest.split_inclusive('\n');
    let rows = rows.take_while(|line| line.starts_with('|'));
    let after = &rest[rows.map(str::len).sum()..];
    let made = format!("{before}{head}{table}{after}");
    if std::env::var("POORWILL_BLESS").is_ok_and(|set| set == "1") {
        std::fs::write(&page, made).unwrap();
        return;
    }
    assert!(made == text, "`make boards TREES=FOLDER` makes:\n{table}");
}
