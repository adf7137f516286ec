//! Adds nodes to the device tree that QEMU makes for a machine.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use thiserror::Error;

use crate::power_supply::SOURCE;
use crate::quoted::quoted;
use crate::{Console, Interrupts, Machine, Qemu};

/// The first line of a tree's source.
const VERSION: &str = "/dts-v1/;";

/// The first word of a memory reservation. The compiler wants reservations before all nodes.
const RESERVATION: &str = "/memreserve/";

/// The device tree compiler.
pub const COMPILER: &str = "dtc";

/// Why there is no device tree.
#[derive(Debug, Error)]
pub enum TreeError {
    #[error(
        "the device tree compiler {COMPILER} does not start ({0}): as root, run `tools/setup`, or \
             `apt-get install device-tree-compiler`"
    )]
    NoCompiler(io::Error),
    #[error("{COMPILER} refuses the device tree: {0}")]
    Refused(String),
    #[error("QEMU did not write the machine's device tree: {0}")]
    Qemu(String),
    #[error("QEMU produced no valid device tree")]
    NoTree,
    #[error("cannot write the device tree {file}: {reason}", file = .file.display())]
    Os { file: PathBuf, reason: io::Error },
}

/// Source of the nodes for persistent memory and its power-fail line. The hold-up is in the
/// machine's own microseconds. Each hart has a cache of `cache_bytes`.
#[must_use]
pub fn power_fail(interrupts: Interrupts, hold_up_us: u32, cache_bytes: usize) -> String {
    let line = match interrupts {
        // Type 4: level-sensitive, active high.
        Interrupts::Aia => format!("&{{/soc/interrupt-controller@c000000}} {SOURCE} 4"),
        Interrupts::Plic => format!("&{{/soc/plic@c000000}} {SOURCE}"),
    };
    format!(
        "/ {{ cpus {{ d-cache-size = <{cache_bytes}>; }};\n\
         power-fail {{ compatible = \"poorwill,power-fail\"; hold-up-us = <{hold_up_us}>;\n\
         interrupts-extended = <{line}>; }}; }};\n"
    )
}

/// Source of the node that asks for an executor, on a board with a weak core.
pub const EXECUTOR: &str = "/ { chosen { poorwill,executor = \"on\"; }; };\n";

/// Source of the nodes for an executor. Its weak core is `hart`, which gets no MMU.
#[must_use]
pub fn weak_core(hart: u32) -> String {
    format!("{EXECUTOR}/ {{ cpus {{ cpu@{hart} {{ mmu-type = \"riscv,none\"; }}; }}; }};\n")
}

/// Writes the device tree of the machine to `file`: QEMU's own, with the nodes in `source`.
///
/// # Errors
///
/// [`TreeError`].
pub fn write(machine: &Machine, qemu: &Qemu, source: &str, file: &Path) -> Result<(), TreeError> {
    write_with(&of_machine(machine, qemu, file)?, source, file)
}

/// The source of the tree that QEMU makes for the machine. `file` is overwritten.
pub(crate) fn of_machine(machine: &Machine, qemu: &Qemu, file: &Path) -> Result<String, TreeError> {
    let plain = compile("dtb", "dts", &ask(machine, qemu, file)?)?;
    Ok(String::from_utf8_lossy(&plain).into_owned())
}

/// Writes to `file` the tree with the source `plain`, and with the nodes in `source`.
pub(crate) fn write_with(plain: &str, source: &str, file: &Path) -> Result<(), TreeError> {
    let (version, nodes) = plain.split_once(VERSION).ok_or(TreeError::NoTree)?;
    let (block, added): (Vec<_>, Vec<_>) =
        (source.lines()).partition(|line| line.trim_start().starts_with(RESERVATION));
    let (block, added) = (block.join("\n"), added.join("\n"));
    let whole = format!("{version}{VERSION}\n{block}\n{nodes}\n{added}\n");
    write_source(&whole, file)
}

/// Writes the device tree with this source to `file`.
///
/// # Errors
///
/// [`TreeError`].
pub fn write_source(source: &str, file: &Path) -> Result<(), TreeError> {
    let tree = compile("dts", "dtb", source.as_bytes())?;
    fs::write(file, tree).map_err(|reason| TreeError::Os {
        file: file.to_owned(),
        reason,
    })
}

/// Makes QEMU write the machine's tree to `file`, and reads it.
fn ask(machine: &Machine, qemu: &Qemu, file: &Path) -> Result<Vec<u8>, TreeError> {
    let mut dump = OsString::from("dumpdtb=");
    dump.push(quoted(file));
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

/// Converts between two formats with the device tree compiler.
fn compile(from: &str, to: &str, tree: &[u8]) -> Result<Vec<u8>, TreeError> {
    let mut compiler = Command::new(COMPILER)
        .args(["-q", "-I", from, "-O", to])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(TreeError::NoCompiler)?;
    // The compiler reads all input before it writes, so this write cannot block for ever. If the
    // compiler ends early, its own message is the reason.
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
