//! Hands the linker script to the linker.

use std::env;

fn main() {
    let crate_dir = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::rerun-if-changed=kernel.ld");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{crate_dir}/kernel.ld");
        // A flat Linux image: both QEMU and the loader take it.
        println!("cargo::rustc-link-arg-bins=--oformat=binary");
    }
}
