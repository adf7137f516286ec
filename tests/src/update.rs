//! What is foretold of images before an update, held against real ones.

use std::path::Path;

use anyhow::{Context, ensure};
use poorwill_machine::area::{AreaError, ForecastReport, Questions, inspect};
use poorwill_machine::firmware::manifest;
use poorwill_machine::flash::Flash;

use crate::disks::TrialDisk;

/// Block length of a disk file as the host takes it, which is not told another.
const FILE_BLOCK_BYTES: u32 = 512;

/// Checks that `firmware`, which has just saved its machine on one of `disks`, is said
/// to wake it: that its manifest names all that is in its images.
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
    ensure!(is_certain, "the firmware that saved it: {told:?}");
    Ok(())
}
