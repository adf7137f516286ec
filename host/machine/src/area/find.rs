use std::path::{Path, PathBuf};

use poorwill_memory::Page;
use poorwill_store::{
    AREA_TYPE, Areas, GptError, StoreError, UnguardedPartition, find_areas, has_table,
};
use thiserror::Error;

use crate::disk::{FileMedium, InUse, KindError};
use crate::interrupt::Interrupted;

/// Why the sleep areas of a disk cannot be read or changed.
#[derive(Debug, Error)]
pub enum AreaError {
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    InUse(#[from] InUse),
    #[error("{} has no GPT partition table: name a whole disk, not a partition or a file system; \
             `poorwill disk create` makes one", .0.display())]
    NoTable(PathBuf),
    #[error("{} has no sleep area: add a partition of type {AREA_TYPE}, or create a disk \
             with `poorwill disk create`", .0.display())]
    NoArea(PathBuf),
    #[error("{} has {count} sleep areas, and a machine accepts only one: \
             give all but one partition another type", .file.display())]
    SeveralAreas { file: PathBuf, count: usize },
    #[error("{}: {reason}{}", .file.display(), cut_short(.reason))]
    Table { file: PathBuf, reason: GptError },
    #[error("{}: {reason}: a snapshot may wake over a disk that has changed since; \
             give --unguarded to accept that", .file.display())]
    Unguarded {
        file: PathBuf,
        reason: UnguardedPartition,
    },
    #[error("{}, partition {partition}: {reason}", .file.display())]
    Area {
        file: PathBuf,
        partition: u32,
        reason: StoreError,
    },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

fn cut_short(error: &GptError) -> &'static str {
    match error {
        GptError::BeyondDisk(_) | GptError::LongerDisk(_) => ": the file has been cut short",
        _ => "",
    }
}

/// Finds the sleep areas of `disk`: at least one, or an error.
pub(super) fn find(
    disk: &Path,
    medium: &mut FileMedium,
    block_bytes: u32,
    scratch: &mut [Page],
) -> Result<Areas, AreaError> {
    let table = |reason| AreaError::Table {
        file: disk.to_owned(),
        reason,
    };
    let areas = find_areas(medium, block_bytes, scratch).map_err(table)?;
    if !areas.is_empty() {
        return Ok(areas);
    }
    let found = has_table(medium, block_bytes, scratch).map_err(table)?;
    let file = disk.to_owned();
    Err(if found {
        AreaError::NoArea(file)
    } else {
        AreaError::NoTable(file)
    })
}
