//! `poorwill disk`: makes disks.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::size::Bytes;

use crate::progress;

/// Make a raw disk with a root file system and a sleep area.
#[derive(Args, Clone, Debug)]
pub(crate) struct Disk {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Create(Create),
}

/// Make a disk file: GPT, partition `root` (if --root is given) and partition
/// `sleep`.
///
/// The file is sparse: what is never written takes no room. It appears under its
/// name when it is whole, or not at all.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill disk create machine.disk --root ~/.cache/poorwill/guest/root.ext4
  poorwill disk create sleep.disk --area 8G")]
struct Create {
    /// The disk file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File system image that becomes the root partition
    #[arg(long, value_name = "IMAGE")]
    root: Option<PathBuf>,
    /// Length of the sleep area; half of it must hold what the machine uses of
    /// its RAM
    #[arg(long, value_name = "SIZE", default_value = "5G")]
    area: Bytes,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl Disk {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// What keeps the disk from being made.
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
            "made {} with a sleep area of {}",
            create.file.display(),
            create.area
        );
        Ok(ExitCode::SUCCESS)
    }
}
