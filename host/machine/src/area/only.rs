use std::fs::File;
use std::path::Path;

use poorwill_medium::Window;
use poorwill_memory::Page;
use poorwill_store::{
    DiskId, GptError, PartitionFingerprint, PartitionFingerprints, StoreError, UnguardedPartition,
    fingerprint_partitions,
};

use super::find::{AreaError, find};
use crate::disk::{FileMedium, look_at, open_locked};

/// The only sleep area of a disk, opened for changes.
#[derive(Debug)]
pub(super) struct OnlyArea {
    medium: FileMedium,
    start: u64,
    length: u64,
    block_bytes: u32,
    /// Number of the partition, from 1.
    pub(super) partition: u32,
}

/// Checks that a disk is not in use, and has one sleep area.
///
/// # Errors
///
/// [`AreaError`].
pub fn check_only(disk: &Path) -> Result<(), AreaError> {
    open_only(disk).map(drop)
}

/// Opens the only sleep area of `disk`, and locks the disk until it is closed.
pub(super) fn open_only(disk: &Path) -> Result<OnlyArea, AreaError> {
    // `look_at` closes its file here: a close after the lock would drop the lock.
    let (_, kind) = look_at(disk)?;
    let mut medium = FileMedium::new(open_locked("disk", disk)?, kind.bytes);
    let mut scratch = [Page::ZERO];
    let areas = find(disk, &mut medium, kind.block_bytes, &mut scratch)?;
    match areas.as_slice() {
        [only] => Ok(OnlyArea {
            medium,
            start: only.start,
            length: only.length,
            block_bytes: kind.block_bytes,
            partition: only.partition,
        }),
        several => Err(AreaError::SeveralAreas {
            file: disk.to_owned(),
            count: several.len(),
        }),
    }
}

impl OnlyArea {
    /// An exported snapshot's file, which is one area without a partition table.
    pub(super) fn whole_file(file: File, length: u64) -> Self {
        OnlyArea {
            medium: FileMedium::new(file, length),
            start: 0,
            length,
            block_bytes: 512,
            partition: 0,
        }
    }

    /// The partitions beside the area whose changes the firmware cannot detect.
    pub(super) fn unguarded(&mut self) -> Result<Vec<UnguardedPartition>, GptError> {
        let mut fingerprints = PartitionFingerprints::new();
        let scratch = &mut [Page::ZERO];
        fingerprint_partitions(
            &mut self.medium,
            DiskId::MEMORY,
            self.block_bytes,
            scratch,
            &mut fingerprints,
        )?;
        let fingerprints = fingerprints.iter();
        Ok(fingerprints
            .filter_map(PartitionFingerprint::unguarded)
            .collect())
    }

    /// The area as a medium.
    pub(super) fn window(&mut self) -> Result<Window<'_, FileMedium>, StoreError> {
        Ok(Window::new(&mut self.medium, self.start, self.length)?)
    }
}
