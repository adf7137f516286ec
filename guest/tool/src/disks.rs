use core::fmt::Write;
use core::mem::MaybeUninit;
use core::str;

use arrayvec::ArrayVec;
use poorwill_memory::Page;
use poorwill_store::{
    AreaLocation, DiskId, MAX_PARTITIONS, PartitionFingerprint, PartitionFingerprints,
    UnguardedPartition, find_areas, fingerprint_partitions,
};
use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::io::Errno;

use crate::complaint::complain;
use crate::device::{Access, BlockDevice, SECTOR_BYTES};
use crate::error::{Error, Name};
use crate::files::number;
use crate::places::Places;

/// A sleep area, with Linux's names for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) node: Name,
    disk: Name,
}

/// The sleep areas of the machine's disks. Further ones are dropped: with more than one, only their
/// number matters.
pub(crate) type Survey = ArrayVec<Found, 16>;

/// Finds the sleep areas on NVMe disks, where the firmware looks for them. If a disk cannot be
/// read, its error goes to `complain`, and the search continues: the disk may be unrelated to
/// sleep. A missing permission is an error.
fn survey(places: &Places<'_>, complain: &mut dyn FnMut(&str, Error)) -> Result<Survey, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(places.blocks, flags, Mode::empty()).map_err(Error::Blocks)?;
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(folder, &mut room);
    let mut survey = Survey::new();
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(Error::Blocks)?;
        let Ok(name) = str::from_utf8(entry.file_name().to_bytes()) else {
            continue;
        };
        if !is_disk(places, name)? {
            continue;
        }
        match look_at(places, name, &mut survey) {
            Ok(()) => {}
            Err(error @ Error::Open(_, Errno::ACCESS | Errno::PERM)) => return Err(error),
            Err(error) => complain(name, error),
        }
    }
    Ok(survey)
}

/// Whether the block device is a whole NVMe disk that can be opened.
fn is_disk(places: &Places<'_>, name: &str) -> Result<bool, Error> {
    if !name.starts_with("nvme") {
        return Ok(false);
    }
    // For a disk with several paths, Linux shows the disk and hides each path.
    let is_hidden = number(places, name, "hidden")? == Some(1);
    let is_partition = number(places, name, "partition")?.is_some();
    Ok(!is_hidden && !is_partition)
}

/// Adds the sleep areas of one disk.
fn look_at(places: &Places<'_>, disk: &str, survey: &mut Survey) -> Result<(), Error> {
    let mut device = BlockDevice::open(places, disk, Access::Read)?;
    let mut scratch = [Page::ZERO];
    let areas = find_areas(&mut device, block_bytes(places, disk)?, &mut scratch)?;
    for area in &areas {
        let node = partition_name(disk, area.partition)?;
        if !is_where(places, &node, area)? {
            return Err(Error::OtherTable {
                disk: Name::from(disk)?,
                partition: area.partition,
            });
        }
        let _no_room = survey.try_push(Found {
            node,
            disk: Name::from(disk)?,
        });
    }
    Ok(())
}

/// The disk's block size in bytes.
fn block_bytes(places: &Places<'_>, disk: &str) -> Result<u32, Error> {
    let bytes = number(places, disk, "queue/logical_block_size")?;
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    Ok(bytes.unwrap_or(512))
}

/// Finds the machine's only sleep area.
pub(crate) fn find_only(places: &Places<'_>, complaints: &mut dyn Write) -> Result<Found, Error> {
    match find(places, complaints)? {
        (areas, true) if areas.is_empty() => Err(Error::RefusedArea),
        (areas, _) => match areas.as_slice() {
            [] => Err(Error::NoArea),
            [only] => Ok(*only),
            several => Err(Error::SeveralAreas(several.len())),
        },
    }
}

/// Finds the sleep areas of the machine's disks, and returns whether others cannot be used.
pub(crate) fn find(
    places: &Places<'_>,
    complaints: &mut dyn Write,
) -> Result<(Survey, bool), Error> {
    let mut is_refused = false;
    let areas = survey(places, &mut |node: &str, error: Error| {
        is_refused |= matches!(error, Error::Table(error) if error.concerns_area());
        complain(complaints, format_args!("{node}: {error}"));
    })?;
    Ok((areas, is_refused))
}

/// The partitions beside the machine's sleep area that the firmware cannot guard. The firmware
/// itself also checks other namespaces of the disk's controller.
pub(crate) fn unguarded_partitions(
    places: &Places<'_>,
    complaints: &mut dyn Write,
) -> Result<ArrayVec<UnguardedPartition, MAX_PARTITIONS>, Error> {
    let found = find_only(places, complaints)?;
    let mut device = BlockDevice::open(places, &found.disk, Access::Read)?;
    let mut fingerprints = PartitionFingerprints::new();
    fingerprint_partitions(
        &mut device,
        DiskId::MEMORY,
        block_bytes(places, &found.disk)?,
        &mut [Page::ZERO],
        &mut fingerprints,
    )?;
    let unguarded = fingerprints.iter();
    Ok(unguarded
        .filter_map(PartitionFingerprint::unguarded)
        .collect())
}

/// Linux's name of a partition of `disk`. There is a `p` before the number if the disk's name ends
/// in a digit.
fn partition_name(disk: &str, partition: u32) -> Result<Name, Error> {
    let mut name = Name::from(disk)?;
    if disk.ends_with(|last: char| last.is_ascii_digit()) {
        name.try_push('p')?;
    }
    write!(name, "{partition}").map_err(|_| Error::LongName)?;
    Ok(name)
}

/// Whether Linux has the partition at the place that the table gives. Linux read the table when the
/// disk appeared, and the table may have changed since.
fn is_where(places: &Places<'_>, node: &str, area: &AreaLocation) -> Result<bool, Error> {
    let bytes = |file| -> Result<Option<u64>, Error> {
        let sectors = number(places, node, file)?;
        Ok(sectors.map(|sectors| sectors.saturating_mul(SECTOR_BYTES)))
    };
    Ok(bytes("start")? == Some(area.start) && bytes("size")? == Some(area.length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_called_as_linux_calls_them() {
        let name = |disk, partition| partition_name(disk, partition).unwrap();
        assert_eq!(name("nvme0n1", 2).as_str(), "nvme0n1p2");
        assert_eq!(name("nvme1n12", 128).as_str(), "nvme1n12p128");
        assert_eq!(name("sda", 1).as_str(), "sda1");
    }
}
