//! `poorwill run --domains`: a machine with domains on the terminal.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use poorwill_machine::disk::{check_unused, look_at};
use poorwill_machine::domains::Domains;
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::{Qemu, interactive};

use crate::domains::checked_machine;

/// Runs the machine that `file` describes, with further `arguments` of QEMU.
pub(super) fn run(
    file: &Path,
    arguments: &[OsString],
    firmware: &Path,
) -> anyhow::Result<ExitCode> {
    let domains = Domains::read(file)?;
    let qemu = Qemu::find()?;
    for (_, _, disk) in domains.disks() {
        look_at(disk)?;
        check_unused(disk)?;
    }
    let folder = socket_folder()?;
    let machine = checked_machine(&domains, &qemu, arguments, firmware, folder.path())?;
    let status = interactive::run(&machine, &qemu).context("QEMU cannot be started")?;
    if !status.success() {
        bail!("QEMU failed ({status}): see its message above");
    }
    eprintln!("\npoorwill: switched off");
    Ok(ExitCode::SUCCESS)
}
