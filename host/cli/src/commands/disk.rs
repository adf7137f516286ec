//! `poorwill disk`: creates disks.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::size::Bytes;

use crate::progress;

/// Create a raw disk with a root file system and a sleep area.
#[derive(Args, Clone, Debug)]
pub(crate) struct Disk {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Create(Create),
}

/// Create a disk file: GPT, partition `root` (if --root is given) and partition `sleep`.
///
/// The file is sparse: unwritten parts take no space. It gets the name FILE only when complete.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill disk create machine.disk --root ~/.cache/poorwill/guest/root.ext4
  poorwill disk create sleep.disk --area 8G")]
struct Create {
    /// The disk file to create
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File system image that becomes the root partition
    #[arg(long, value_name = "IMAGE")]
    root: Option<PathBuf>,
    /// Length of the sleep area; half of it must hold the machine's used RAM
    #[arg(long, value_name = "SIZE", default_value = "5G")]
    area: Bytes,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl Disk {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Action::Create(create) = self.action;
        let disk = NewDisk {
            root: create.root,
            swap: None,
            areas: vec![create.area],
        };
        let bar = progress::bytes("copying the root file system", 0);
        disk.create(&create.file, create.force, &bar)?;
        bar.finish_and_clear();
        println!(
            "created {} with a sleep area of {}",
            create.file.display(),
            create.area
        );
        Ok(ExitCode::SUCCESS)
    }
}
