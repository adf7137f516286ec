//! `poorwill area`: shows the sleep areas of a disk, and changes their configuration and snapshot.

mod set;
mod snapshot;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::set::Set;
use self::snapshot::{Delete, Export, Import, Name};
use clap::{Args, Subcommand};
use poorwill_machine::area::{AreaReport, Questions, inspect};
use poorwill_machine::disk::holders;
use poorwill_machine::firmware;
use poorwill_machine::flash::Flash;

use crate::progress;

/// List the sleep areas and images of a disk, and verify them.
///
/// Without a subcommand nothing is written. The disk may be a raw file or a block device.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  poorwill area machine.disk
  poorwill area --verify machine.disk
  poorwill area --verify machine.disk --flash machine.flash
  poorwill area --json /dev/nvme0n1
  poorwill area machine.disk --for new/poorwill.elf
  poorwill area set machine.disk --mode staged --delay 30min
  poorwill area export machine.disk product.snapshot
  poorwill area import product.snapshot other.disk --flash other.flash

Exit status: 0 all is well, 1 an image, a record or the configuration is damaged,
an image cannot be verified, FIRMWARE may not wake one, or the
disk cannot be read, 2 wrong usage."
)]
pub(crate) struct Area {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Set(Set),
    Name(Name),
    Delete(Delete),
    Export(Export),
    Import(Import),
}

#[derive(Args, Clone, Debug)]
struct Shown {
    /// The disk
    #[arg(value_name = "DISK", required = true)]
    disk: Option<PathBuf>,
    /// The machine's flash, to verify sealed images and to check that the machine wakes them
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Check each checksum or tag of the images that may wake
    #[arg(long)]
    verify: bool,
    /// Before an update: show which images the firmware in this file would wake
    #[arg(long = "for", value_name = "FIRMWARE")]
    firmware: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Area {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Some(Action::Set(set)) => set.execute(),
            Some(Action::Name(name)) => name.execute(),
            Some(Action::Delete(delete)) => delete.execute(),
            Some(Action::Export(export)) => export.execute(),
            Some(Action::Import(import)) => import.execute(),
            None => self.shown.execute(),
        }
    }
}

impl Shown {
    /// The disk. clap has checked that it is given if there is no subcommand.
    fn disk(&self) -> &Path {
        self.disk.as_deref().unwrap_or(Path::new(""))
    }

    fn execute(&self) -> anyhow::Result<ExitCode> {
        let mut flash = self.flash.as_deref().map(Flash::read).transpose()?;
        let bar = self.verify.then(|| progress::bytes("verifying", 0));
        let manifest = self.firmware.as_deref().map(firmware::manifest);
        let manifest = manifest.transpose()?;
        let questions = Questions {
            verify: bar.as_ref(),
            flash: flash.as_mut(),
            firmware: manifest.as_ref(),
        };
        let areas = inspect(self.disk(), questions)?;
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&areas)?);
        } else {
            if let Some(manifest) = &manifest {
                println!("that firmware: {manifest}");
            }
            areas.iter().for_each(|area| print!("{area}"));
            if let Some(holder) = holders(self.disk()).first() {
                let (name, pid) = (&holder.name, holder.pid);
                println!(
                    "note: {name} (process {pid}) has the disk open: the result may be outdated"
                );
            }
        }
        Ok(if areas.iter().all(AreaReport::is_well) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
