//! Hands the linker script to the linker.

use std::env;

fn main() {
    let crate_dir = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::rerun-if-changed=hostile.ld");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{crate_dir}/hostile.ld");
        // The file holds plain bytes that run at any address; the entry code relocates them.
        for argument in [
            "--oformat=binary",
            "-pie",
            "--no-dynamic-linker",
            "-znotext",
        ] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
