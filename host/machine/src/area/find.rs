use std::path::{Path, PathBuf};

use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_store::{AREA_TYPE, Areas, GptError, StoreError, UnguardedPartition, find_areas};
use thiserror::Error;

use crate::disk::{FileMedium, InUse, KindError};
use crate::interrupt::Interrupted;

/// Why a disk's sleep areas cannot be looked at, or configured.
#[derive(Debug, Error)]
pub enum AreaError {
    /// Not a raw disk.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// A disk that is to be written, and is in use.
    #[error(transparent)]
    InUse(#[from] InUse),
    /// No partition table.
    #[error("{} has no GPT partition table: is it a disk, not a partition or a file system? \
             `poorwill disk create` makes one", .0.display())]
    NoTable(PathBuf),
    /// No sleep area.
    #[error("{} has no sleep area: add a partition of type {AREA_TYPE}, or make a disk \
             with `poorwill disk create`", .0.display())]
    NoArea(PathBuf),
    /// Several, of which none is the machine's.
    #[error("{} has {count} sleep areas, and a machine uses one only if there is no other: \
             give all but one partition another type", .file.display())]
    SeveralAreas {
        /// The disk.
        file: PathBuf,
        /// How many.
        count: usize,
    },
    /// A partition table that cannot be used.
    #[error("{}: {reason}{}", .file.display(), cut_short(.reason))]
    Table {
        /// The disk.
        file: PathBuf,
        /// What is the matter.
        reason: GptError,
    },
    /// A snapshot could wake over a partition that was written to.
    #[error("{}: {reason}: a snapshot may wake over a disk that its kernel does not know; \
             --unguarded has it taken all the same", .file.display())]
    Unguarded {
        /// The disk.
        file: PathBuf,
        /// Which partition, and why.
        reason: UnguardedPartition,
    },
    /// A sleep area that cannot be used.
    #[error("{}, partition {partition}: {reason}", .file.display())]
    Area {
        /// The disk.
        file: PathBuf,
        /// Number of the partition.
        partition: u32,
        /// What is the matter.
        reason: StoreError,
    },
    /// Ctrl-C.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

fn cut_short(error: &GptError) -> &'static str {
    match error {
        GptError::BeyondDisk(_) => ": the file has been cut short",
        _ => "",
    }
}

/// The sleep areas of `disk`, of which there is one at least.
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
    let found = has_table(medium, block_bytes).map_err(|error| table(error.into()))?;
    let file = disk.to_owned();
    Err(if found {
        AreaError::NoArea(file)
    } else {
        AreaError::NoTable(file)
    })
}

/// Whether the disk has a GPT, by its first header's signature.
fn has_table(medium: &mut FileMedium, block_bytes: u32) -> Result<bool, MediumError> {
    let mut pages = [Page::ZERO, Page::ZERO];
    if medium.capacity() < 2 * PAGE_BYTES {
        return Ok(false);
    }
    medium.read(0, &mut pages)?;
    let word = block_bytes as usize / 8;
    let [first, second] = &pages;
    let signature = first.0.iter().chain(&second.0).nth(word);
    Ok(signature == Some(&u64::from_le_bytes(*b"EFI PART")))
}
