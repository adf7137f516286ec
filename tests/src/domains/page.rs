//! The example of docs/domains.md, as the page has it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use poorwill_machine::domains::Domains;
use poorwill_machine::{Machine, Qemu};

/// The first block of a language on the page.
fn block<'p>(page: &'p str, language: &str) -> anyhow::Result<&'p str> {
    let begin = format!("```{language}\n");
    let (_, rest) = page.split_once(&begin).context(begin)?;
    let (block, _) = rest.split_once("```").context("the block has no end")?;
    Ok(block)
}

/// Runs the page's commands, and makes the machine of its file.
pub(crate) fn machine(qemu: &Qemu, firmware: &Path, folder: &Path) -> anyhow::Result<Machine> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let page = fs::read_to_string(root.join("docs/domains.md"))?;
    let machine = folder.join("machine");
    // What the first line builds is built.
    let (_, commands) = block(&page, "sh")?.split_once('\n').context("commands")?;
    let own = format!("folder={}", machine.display());
    ensure!(commands.contains("folder=machine\n"), "{commands}");
    let commands = commands.replace("folder=machine\n", &format!("{own}\n"));
    let mut shell = Command::new("bash");
    let status = shell.args(["-euc", &commands]).current_dir(root).status()?;
    ensure!(status.success(), "{status}: {commands}");
    let file = machine.join("machine.toml");
    fs::write(&file, block(&page, "toml")?)?;
    Ok(Domains::read(&file)?
        .machine(qemu, &[], firmware, folder)?
        .0)
}
