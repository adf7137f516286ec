//! Device trees with more in them than QEMU's own.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use thiserror::Error;

use crate::power_supply::SOURCE;
use crate::{Console, Interrupts, Machine, Qemu};

/// The line that a tree's source begins with.
const VERSION: &str = "/dts-v1/;";

/// What begins a range of the memory reservation block, which must come before all nodes.
const RESERVATION: &str = "/memreserve/";

/// The device tree compiler.
pub const COMPILER: &str = "dtc";

/// Why there is no tree.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The compiler is not there.
    #[error(
        "no {COMPILER}, which makes device trees ({0}): as root, run `tools/setup`, or \
             `apt-get install device-tree-compiler`"
    )]
    NoCompiler(io::Error),
    /// The compiler refuses it.
    #[error("{COMPILER} refuses the device tree: {0}")]
    Refused(String),
    /// QEMU does not tell its own.
    #[error("QEMU does not tell the machine's device tree: {0}")]
    Qemu(String),
    /// It is no tree.
    #[error("QEMU's device tree is none")]
    NoTree,
    /// A file cannot be read or written.
    #[error("cannot write the device tree {file}: {reason}", file = .file.display())]
    Os {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
}

/// Source of what says that the machine's memory is persistent, and how it is told that
/// the power fails: for that long it lasts then, in the machine's own microseconds. Each
/// hart has one cache of so many bytes.
#[must_use]
pub fn power_fail(interrupts: Interrupts, hold_up_us: u32, cache_bytes: usize) -> String {
    let line = match interrupts {
        // Type 4: a level that is high.
        Interrupts::Aia => format!("&{{/soc/interrupt-controller@c000000}} {SOURCE} 4"),
        Interrupts::Plic => format!("&{{/soc/plic@c000000}} {SOURCE}"),
    };
    format!(
        "/ {{ cpus {{ d-cache-size = <{cache_bytes}>; }};\n\
         power-fail {{ compatible = \"poorwill,power-fail\"; hold-up-us = <{hold_up_us}>;\n\
         interrupts-extended = <{line}>; }}; }};\n"
    )
}

/// Writes into `file` the tree that QEMU makes for the machine, with `source` added, which
/// is text for the device tree compiler.
///
/// # Errors
///
/// [`TreeError`].
pub fn write(machine: &Machine, qemu: &Qemu, source: &str, file: &Path) -> Result<(), TreeError> {
    let plain = compile("dtb", "dts", &ask(machine, qemu, file)?)?;
    let plain = String::from_utf8_lossy(&plain);
    let (version, nodes) = plain.split_once(VERSION).ok_or(TreeError::NoTree)?;
    let (block, added): (Vec<_>, Vec<_>) =
        (source.lines()).partition(|line| line.trim_start().starts_with(RESERVATION));
    let (block, added) = (block.join("\n"), added.join("\n"));
    let whole = format!("{version}{VERSION}\n{block}\n{nodes}\n{added}\n");
    let tree = compile("dts", "dtb", whole.as_bytes())?;
    fs::write(file, tree).map_err(|reason| TreeError::Os {
        file: file.to_owned(),
        reason,
    })
}

/// Has QEMU write the tree of the machine into `file`, and reads it.
fn ask(machine: &Machine, qemu: &Qemu, file: &Path) -> Result<Vec<u8>, TreeError> {
    let mut dump = OsString::from("dumpdtb=");
    // A comma in a name is doubled.
    dump.push(file.to_string_lossy().replace(',', ",,"));
    let made = Command::new(&qemu.program)
        .args(machine.arguments(Console::Pipe))
        .arg("-machine")
        .arg(dump)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| TreeError::Qemu(error.to_string()))?;
    if !made.status.success() {
        return Err(TreeError::Qemu(errors(&made)));
    }
    fs::read(file).map_err(|error| TreeError::Qemu(error.to_string()))
}

/// Has the device tree compiler turn one form into another.
fn compile(from: &str, to: &str, tree: &[u8]) -> Result<Vec<u8>, TreeError> {
    let mut compiler = Command::new(COMPILER)
        .args(["-q", "-I", from, "-O", to])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(TreeError::NoCompiler)?;
    // It reads all before it writes. One that ends before says why.
    let written = (compiler.stdin.take()).map_or(Ok(()), |mut input| input.write_all(tree));
    let output = compiler.wait_with_output().map_err(TreeError::NoCompiler)?;
    match (output.status.success(), written) {
        (true, Ok(())) => Ok(output.stdout),
        (true, Err(error)) => Err(TreeError::Refused(error.to_string())),
        (false, _) => Err(TreeError::Refused(errors(&output))),
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_a_source_of_the_machines_controller() {
        let aia = power_fail(Interrupts::Aia, 4224, 16384);
        for part in [
            "<&{/soc/interrupt-controller@c000000} 60 4>",
            "hold-up-us = <4224>",
            "d-cache-size = <16384>",
        ] {
            assert!(aia.contains(part), "{part}: {aia}");
        }
        let plic = power_fail(Interrupts::Plic, 4224, 16384);
        assert!(plic.contains("<&{/soc/plic@c000000} 60>"), "{plic}");
    }
}
