//! The device tree compiler, for tests.
#![allow(dead_code, reason = "a test may need one function alone")]

use std::io::Write;
use std::process::{Command, Stdio};

/// Compiles a tree.
pub(crate) fn compile(source: &str) -> Vec<u8> {
    compile_with(source, &["-q"], Stdio::inherit())
}

/// Compiles a tree of which the compiler warns, or which it refuses unless it is forced.
pub(crate) fn force(source: &str) -> Vec<u8> {
    compile_with(source, &["-q", "-q", "-f"], Stdio::null())
}

fn compile_with(source: &str, flags: &[&str], errors: Stdio) -> Vec<u8> {
    let mut dtc = Command::new("dtc")
        .args(["-I", "dts", "-O", "dtb"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .expect("dtc is needed: apt-get install device-tree-compiler");
    // It reads all before it writes.
    let mut input = dtc.stdin.take().unwrap();
    input.write_all(source.as_bytes()).unwrap();
    drop(input);
    let output = dtc.wait_with_output().unwrap();
    assert!(output.status.success(), "dtc refuses {source}");
    output.stdout
}
