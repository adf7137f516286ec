use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use poorwill_machine::area::snapshot;
use poorwill_store::Name as SnapshotName;

use crate::progress;

/// Give the snapshot another name.
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
    /// The flash of the disk's machine, which then forgets the snapshot, too: no copy
    /// of it wakes
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
}

/// Copy the snapshot into a file, for other machines of the same kind.
///
/// The copy is plain: whoever has the file can read what was in the machine's
/// memory.
#[derive(Args, Clone, Debug)]
pub(super) struct Export {
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// The file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The flash of the disk's machine, if that seals its images
    #[arg(long, value_name = "FLASH")]
    flash: Option<PathBuf>,
}

/// Make an exported snapshot that of a disk's machine.
///
/// The machine must be of the same kind as the one that the snapshot was taken on:
/// memory, harts, instruction set and device tree; the partitions beside the sleep
/// area must be the same, too. An image that waits on the disk is given up.
#[derive(Args, Clone, Debug)]
pub(super) struct Import {
    /// The exported snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// The flash of the disk's machine, if it has one: the snapshot is sealed for it
    #[arg(long, value_name = "FLASH")]
    flash: Option<PathBuf>,
    /// Its name on this machine; else what it had
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
