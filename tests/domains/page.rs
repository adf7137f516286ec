//! The example of docs/domains.md, as the page has it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::domains::Domains;
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::{PowerOn, Qemu};
use poorwill_tests::wait_for;

pub(crate) const EXAMPLE: &str = "the example of docs/domains.md";

/// Limit until Linux has started.
const LIMIT: Duration = Duration::from_secs(300);

/// The first block of a language on the page.
fn block<'p>(page: &'p str, language: &str) -> anyhow::Result<&'p str> {
    let begin = format!("```{language}\n");
    let (_, rest) = page.split_once(&begin).context(begin)?;
    let (block, _) = rest.split_once("```").context("the block has no end")?;
    Ok(block)
}

/// Runs the page's commands, and starts the machine of its file.
pub(crate) fn example_starts(qemu: &Qemu, firmware: &Path) -> anyhow::Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let page = fs::read_to_string(root.join("docs/domains.md"))?;
    let folder = socket_folder()?;
    let machine = folder.path().join("machine");
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
    let domains = Domains::read(&file)?;
    let (machine, _) = domains.machine(qemu, &[], firmware, folder.path())?;
    let mut running = machine.power_on(qemu, PowerOn::default())?;
    running.fail_on(&["cannot start", "panic"]);
    for line in [
        "poorwill: domain critical: starts on hart 2",
        "poorwill: domain linux: starts on hart 0",
        "poorwill-guest: redis ready",
    ] {
        wait_for(&mut running, line, LIMIT)?;
    }
    running.kill()?;
    Ok(())
}
