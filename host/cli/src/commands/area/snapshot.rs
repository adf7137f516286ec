use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use poorwill_machine::area::snapshot;
use poorwill_store::Name as SnapshotName;

use crate::progress;

/// Rename the snapshot.
#[derive(Args, Clone, Debug)]
pub(super) struct Name {
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// The name: up to 32 printable ASCII characters
    #[arg(value_name = "NAME")]
    name: SnapshotName,
}

/// Delete the snapshot; its machine boots cold from then on.
#[derive(Args, Clone, Debug)]
pub(super) struct Delete {
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// The machine's flash, from which the snapshot is removed, too: no copy of it wakes
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
}

/// Copy the snapshot into a file, for other machines of the same kind.
///
/// The copy is not sealed: a reader of the file can read all of the machine's memory.
#[derive(Args, Clone, Debug)]
pub(super) struct Export {
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// The file to create
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The machine's flash, if its images are sealed
    #[arg(long, value_name = "FLASH")]
    flash: Option<PathBuf>,
}

/// Import an exported snapshot into a disk.
///
/// The machine must be of the same kind as the snapshot's: memory, harts, instruction set and
/// device tree. The partitions beside the sleep area must be the same, too. An image that waits on
/// the disk to wake is discarded.
#[derive(Args, Clone, Debug)]
pub(super) struct Import {
    /// The exported snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// The machine's flash, if it has one, whose key seals the snapshot
    #[arg(long, value_name = "FLASH")]
    flash: Option<PathBuf>,
    /// A new name [default: the exported one]
    #[arg(long, value_name = "NAME")]
    name: Option<SnapshotName>,
}

impl Name {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        snapshot::name(&self.disk, self.name)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Delete {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        snapshot::delete(&self.disk, self.flash.as_deref())?;
        println!("the snapshot is deleted");
        Ok(ExitCode::SUCCESS)
    }
}

impl Export {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let bar = progress::bytes("exporting", 0);
        snapshot::export(&self.disk, self.flash.as_deref(), &self.file, &bar)?;
        bar.finish_and_clear();
        println!("the snapshot is in {}", self.file.display());
        Ok(ExitCode::SUCCESS)
    }
}

impl Import {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let bar = progress::bytes("importing", 0);
        let flash = self.flash.as_deref();
        snapshot::import(&self.file, &self.disk, flash, self.name, &bar)?;
        bar.finish_and_clear();
        println!("{} holds the snapshot", self.disk.display());
        Ok(ExitCode::SUCCESS)
    }
}
