//! Checks that the tests that `make mutants` relies on exist and run.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::expand::expand;
use crate::load_plan;

/// The patches of all mutants.
fn texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let patches = fs::read_dir(folder).unwrap();
    let texts = patches.map(|patch| fs::read_to_string(patch.unwrap().path()).unwrap());
    texts.collect()
}

#[test]
fn each_mutant_names_a_trial_that_is_run_often() {
    let trials = expand(&load_plan().unwrap()).unwrap();
    let texts = texts();
    let rows = texts
        .iter()
        .filter_map(|text| text.lines().nth(1)?.strip_prefix("row: "));
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let is_run = |trial: &crate::Trial| trial.name.contains(row) && !trial.is_long;
        assert!(trials.iter().any(is_run), "no trial {row} is run often");
    }
}

/// A patch that does not apply to the sources would remove no check.
#[test]
fn each_mutant_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let patches = fs::read_dir(root.join("tests/mutants")).unwrap();
    let mut refused = Vec::new();
    for patch in patches.map(|patch| patch.unwrap().path()) {
        let checked = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(&root)
            .output()
            .expect("git runs");
        if !checked.status.success() {
            refused.push(String::from_utf8_lossy(&checked.stderr).into_owned());
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}
