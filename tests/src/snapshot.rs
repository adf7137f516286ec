//! Actions on a machine's snapshot while the machine is off.

use std::fs::{self, File};
use std::path::Path;

use indicatif::ProgressBar;
use poorwill_machine::area::snapshot::{delete, export, import};

use crate::disks::{TrialDisk, copy_part};
use crate::layout::Found;
use crate::plan::Managing;
use crate::tamper;

/// Applies an action to the snapshot on `disk`. Its machine may have `flash`.
pub(crate) fn apply(
    managing: Managing,
    disk: &TrialDisk,
    flash: Option<&Path>,
) -> anyhow::Result<()> {
    match managing {
        Managing::Delete => Ok(delete(&disk.file, flash)?),
        Managing::Move => change_machines(disk, flash),
    }
}

/// Replaces disk and flash by those of a second machine, and imports the snapshot there.
fn change_machines(disk: &TrialDisk, flash: Option<&Path>) -> anyhow::Result<()> {
    let exported = disk.file.with_extension("snapshot");
    let second = disk.file.with_extension("second");
    let hidden = ProgressBar::hidden();
    export(&disk.file, flash, &exported, &hidden)?;
    copy_but_area(disk, &second)?;
    if let Some(flash) = flash {
        fs::write(flash, tamper::erased())?;
    }
    import(&exported, &second, flash, None, &hidden)?;
    fs::remove_file(exported)?;
    Ok(fs::rename(second, &disk.file)?)
}

fn copy_but_area(disk: &TrialDisk, to: &Path) -> anyhow::Result<()> {
    let area = Found::on(&disk.file, disk.block_bytes())?.area();
    let (from, to) = (File::open(&disk.file)?, File::create_new(to)?);
    let end = from.metadata()?.len();
    copy_part(&from, &to, 0..area.start)?;
    Ok(copy_part(&from, &to, area.end..end)?)
}
