//! `poorwill run`: starts or wakes a machine on the terminal.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::machine::{DEBIAN_COMMAND_LINE, Disk, Interrupts, Machine, Qemu, interactive};
use crate::paths::{self, Guest};
use crate::size::Bytes;

/// Start a machine on this terminal, or wake it if it sleeps.
#[derive(Args, Clone, Debug)]
pub struct Run {
    /// Root disk with a sleep area: a raw file or a block device
    #[arg(long, value_name = "FILE")]
    disk: PathBuf,
    /// Next stage: a Linux `Image`, U-Boot, ... [default: Debian's kernel]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Initial RAM file system of the kernel
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Added to the kernel command line
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    append: String,
    /// RAM of the machine
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    memory: Bytes,
    /// Number of harts
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=512))]
    harts: u32,
    /// Interrupt controllers
    #[arg(long, value_enum, default_value_t)]
    interrupts: Interrupts,
    /// Firmware
    #[arg(long, value_name = "FILE")]
    firmware: Option<PathBuf>,
    /// Arguments for QEMU
    #[arg(last = true, value_name = "QEMU ARGUMENT")]
    qemu: Vec<OsString>,
}

impl Run {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// What keeps the machine from starting.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let qemu = Qemu::find()?;
        let guest = Guest::find()?;
        let machine = Machine {
            harts: self.harts,
            memory: self.memory,
            interrupts: self.interrupts,
            kernel: Some(self.kernel.unwrap_or(guest.kernel)),
            initrd: Some(self.initrd.unwrap_or(guest.initrd)),
            command_line: format!("{DEBIAN_COMMAND_LINE} {}", self.append),
            disks: vec![Disk::nvme(self.disk)],
            extra_arguments: self.qemu,
            ..Machine::new(self.firmware.map_or_else(paths::firmware, Ok)?)
        };
        let status = interactive::run(&machine, &qemu)?;
        if !status.success() {
            bail!("QEMU ended with {status}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
