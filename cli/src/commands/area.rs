//! `poorwill area`: what is in the sleep areas of a disk.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::area::{AreaReport, inspect};
use crate::disk::holders;
use crate::flash::Flash;
use crate::progress;

/// List the sleep areas and images of a disk, and verify them.
///
/// Nothing is written. The disk may be a raw file or a block device.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill area machine.disk
  poorwill area --verify machine.disk
  poorwill area --verify machine.disk --flash machine.flash
  poorwill area --json /dev/nvme0n1

Exit status: 0 all is well, 1 an image or a record is damaged, an image cannot be
verified, or the disk cannot be read, 2 wrong usage.")]
pub struct Area {
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// The flash of the disk's machine: to verify sealed images, and to tell
    /// whether that machine wakes them
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Check every checksum or tag of the images that may wake
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Area {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// What keeps the disk from being looked at.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let mut flash = self.flash.as_deref().map(Flash::read).transpose()?;
        let bar = self.verify.then(|| progress::bytes("verifying", 0));
        let areas = inspect(&self.disk, bar.as_ref(), flash.as_mut())?;
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&areas)?);
        } else {
            areas.iter().for_each(|area| print!("{area}"));
            if let Some(holder) = holders(&self.disk).first() {
                let (name, pid) = (&holder.name, holder.pid);
                println!("note: {name} (process {pid}) has the disk open: this may change");
            }
        }
        Ok(if areas.iter().all(AreaReport::is_well) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
