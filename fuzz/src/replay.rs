//! Targets without a fuzzer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs a target on the files that the command line names.
#[must_use]
pub fn files(run: fn(&[u8])) -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        eprintln!("usage: TARGET FILE...");
        return ExitCode::FAILURE;
    }
    for file in &files {
        one(file, run);
        println!("{} passes", file.display());
    }
    ExitCode::SUCCESS
}

/// Runs a target on its corpus, which is there and small.
///
/// # Panics
///
/// When the target does, or the corpus is missing, unreadable or too large.
pub fn corpus(target: &str, max_len: u64, run: fn(&[u8])) {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "corpus", target]
        .iter()
        .collect();
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("no corpus in {}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder that can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in &files {
        let length = file.metadata().expect("a file of the corpus").len();
        assert!(length <= max_len, "{} is too long", file.display());
        one(file, run);
    }
}

fn one(file: &Path, run: fn(&[u8])) {
    // Shown when the target panics.
    println!("replaying {}", file.display());
    let input = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    run(&input);
}
