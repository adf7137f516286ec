//! Compares the forecast of a wake, as before an update, with a real image.

use std::path::Path;

use anyhow::{Context, ensure};
use poorwill_machine::area::{AreaError, ForecastReport, Questions, inspect};
use poorwill_machine::firmware::manifest;
use poorwill_machine::flash::Flash;

use crate::disks::TrialDisk;

/// Block size that the host assumes for a disk file.
const FILE_BLOCK_BYTES: u32 = 512;

/// Checks the forecast for `firmware`, which has just saved its machine on one of `disks`. It must
/// be a wake: the manifest must list all formats in the image.
pub(crate) fn check(
    disks: &[TrialDisk],
    flash: Option<&Path>,
    firmware: &Path,
) -> anyhow::Result<()> {
    if disks
        .iter()
        .any(|disk| disk.block_bytes() != FILE_BLOCK_BYTES)
    {
        return Ok(());
    }
    let manifest = manifest(firmware)?;
    let mut told = Vec::new();
    for disk in disks {
        let mut flash = flash.map(Flash::read).transpose()?;
        let questions = Questions {
            flash: flash.as_mut(),
            firmware: Some(&manifest),
            ..Questions::default()
        };
        let areas = match inspect(&disk.file, questions) {
            Err(AreaError::NoArea(_) | AreaError::NoTable(_)) => continue,
            areas => areas.context("foretelling the wake")?,
        };
        let slots = areas.into_iter().flat_map(|area| area.slots);
        told.extend(slots.filter_map(|slot| slot.forecast));
    }
    let is_certain = !told.is_empty() && told.iter().all(|told| *told == ForecastReport::Wakes);
    ensure!(
        is_certain,
        "the forecast for the firmware that saved the image: {told:?}"
    );
    Ok(())
}
