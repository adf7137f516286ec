//! The build script of bare guests: hands the linker script to the linker.

use std::env;

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/bare/link.ld");
    println!("cargo::rerun-if-changed={script}");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{script}");
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
