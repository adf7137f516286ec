//! Device trees with more in them than QEMU's own, or less.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, ensure};
use poorwill_machine::{Console, Machine, Qemu};

/// The line that a tree's source begins with.
const VERSION: &str = "/dts-v1/;";

/// What begins a range of the memory reservation block, which must come before all nodes.
const RESERVATION: &str = "/memreserve/";

/// Writes into `file` the tree that QEMU makes for the machine, with `source` added, which
/// is text for the device tree compiler.
pub(crate) fn write(
    machine: &Machine,
    qemu: &Qemu,
    source: &str,
    file: &Path,
) -> anyhow::Result<()> {
    let mut dump = OsString::from("dumpdtb=");
    dump.push(file);
    let made = Command::new(&qemu.program)
        .args(machine.arguments(Console::Pipe))
        .arg("-machine")
        .arg(dump)
        .stdin(Stdio::null())
        .output()
        .context("QEMU")?;
    ensure!(made.status.success(), "QEMU's tree: {}", errors(&made));
    let plain = compile("dtb", "dts", &fs::read(file)?)?;
    let plain = String::from_utf8(plain)?;
    let (version, nodes) = plain.split_once(VERSION).context("no device tree")?;
    let (block, added): (Vec<_>, Vec<_>) =
        (source.lines()).partition(|line| line.trim_start().starts_with(RESERVATION));
    let (block, added) = (block.join("\n"), added.join("\n"));
    let whole = format!("{version}{VERSION}\n{block}\n{nodes}\n{added}\n");
    Ok(fs::write(file, compile("dts", "dtb", whole.as_bytes())?)?)
}

/// Damages the tree in `file` where the node of that name begins.
pub(crate) fn damage(file: &Path, node: &str) -> anyhow::Result<()> {
    let mut tree = fs::read(file)?;
    let begin = [&1_u32.to_be_bytes(), node.as_bytes(), &[0]].concat();
    let mut windows = tree.windows(begin.len());
    let at = windows.position(|bytes| bytes == begin);
    let at = at.with_context(|| format!("no node {node}"))?;
    tree[at..at + 4].fill(0xee);
    Ok(fs::write(file, tree)?)
}

/// Has the device tree compiler turn one form into another.
fn compile(from: &str, to: &str, tree: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut compiler = Command::new("dtc")
        .args(["-q", "-I", from, "-O", to])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("dtc, which the package device-tree-compiler has")?;
    // It reads all before it writes.
    let mut input = compiler.stdin.take().context("no pipe to dtc")?;
    input.write_all(tree)?;
    drop(input);
    let output = compiler.wait_with_output()?;
    ensure!(
        output.status.success(),
        "dtc refuses the tree: {}",
        errors(&output)
    );
    Ok(output.stdout)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .trim_end()
        .to_owned()
}
