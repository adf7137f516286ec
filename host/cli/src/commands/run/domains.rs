//! `poorwill run --domains`: a machine with domains on the terminal.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use poorwill_machine::area::{Questions, inspect};
use poorwill_machine::disk::{check_unused, look_at};
use poorwill_machine::domains::Domains;
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::{Qemu, interactive};
use poorwill_medium::pci::Function;

use crate::domains::{Assumed, Tree};

/// PMP entries of QEMU's harts.
const PMP_ENTRIES: usize = 16;

/// The address at which QEMU loads the firmware.
const FIRMWARE_AT: u64 = 0x8000_0000;

/// Runs the machine that `file` describes.
pub(super) fn run(file: &Path, firmware: &Path) -> anyhow::Result<ExitCode> {
    let domains = Domains::read(file)?;
    let qemu = Qemu::find()?;
    let mut sleep_disks = Vec::new();
    for (bus, slot, disk) in domains.disks() {
        look_at(disk)?;
        check_unused(disk)?;
        // A disk without a partition table has no sleep area.
        let areas = inspect(disk, Questions::default()).unwrap_or_default();
        if !areas.is_empty() {
            sleep_disks.push(Function {
                bus: u8::try_from(bus)?,
                device: u8::try_from(slot)?,
                function: 0,
            });
        }
    }
    let folder = socket_folder()?;
    let (machine, tree) = domains.machine(&qemu, firmware, folder.path())?;
    let verdict = Tree::read(&tree)?.check(Assumed {
        pmp_entries: Some(PMP_ENTRIES),
        firmware_at: FIRMWARE_AT,
        sleep_disks: Some(&sleep_disks),
    });
    if !verdict.is_fenced() {
        bail!(
            "the domains cannot be fenced from each other:\n{}",
            verdict.text()
        );
    }
    let status = interactive::run(&machine, &qemu).context("QEMU cannot be started")?;
    if !status.success() {
        bail!("QEMU failed ({status}): see its message above");
    }
    eprintln!("\npoorwill: switched off");
    Ok(ExitCode::SUCCESS)
}
