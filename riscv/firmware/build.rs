//! Passes the linker script to the linker, and the script's addresses to the manifest.

use std::fs;

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/firmware.ld");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rerun-if-changed={script}");
    let text = fs::read_to_string(script).expect("the linker script is readable");
    for name in ["FIRMWARE_BASE", "FIRMWARE_SIZE"] {
        println!("cargo:rustc-env={name}={}", number(&text, name));
    }
}

/// The number that the script assigns to `name`.
fn number(script: &str, name: &str) -> u64 {
    let start = format!("{name} = ");
    let line = script.lines().find_map(|line| line.strip_prefix(&start));
    let value = line.and_then(|line| line.strip_suffix(';'));
    let value = value.expect("the script assigns a number");
    let (digits, unit, radix) = match (value.strip_prefix("0x"), value.strip_suffix('K')) {
        (Some(digits), _) => (digits, 1, 16),
        (None, Some(digits)) => (digits, 1024, 10),
        (None, None) => (value, 1, 10),
    };
    u64::from_str_radix(digits, radix).expect("a number") * unit
}
