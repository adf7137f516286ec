use poorwill_medium::MediumError;
use thiserror::Error;

use super::area::{MAX_AREAS, MAX_ENTRIES, MAX_NUMBER, MAX_PARTITIONS};
use crate::content::Content;

/// The reason why a disk's partition table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GptError {
    /// Both copies of the table are damaged.
    #[error("both copies of the partition table are damaged")]
    Damaged,
    /// Only the backup has a sleep area. Linux shows no partition, and may use the whole disk.
    #[error(
        "partition {0}, a sleep area, is only in the backup of the partition table, which Linux \
         does not use: restore the table with gdisk, or erase it with wipefs if the disk has \
         other content now"
    )]
    OnlyBackup(u32),
    /// The table is for a longer disk. Linux shows no partition.
    #[error(
        "partition {0}, a sleep area, is in the partition table of a longer disk, which Linux does \
         not use: make the disk as long as before, or partition it anew"
    )]
    LongerDisk(u32),
    /// A sleep area extends past the end of the disk.
    #[error("partition {0}, a sleep area, reaches beyond the end of the disk")]
    BeyondDisk(u32),
    /// Beside a sleep area, or as one, there is a partition that ends before it begins.
    #[error("partition {0} ends before it begins: correct or delete it")]
    Reversed(u32),
    /// Linux does not show the sleep area.
    #[error(
        "partition {0}, a sleep area, has a number above {MAX_NUMBER}, and Linux does not show it: \
         give it a lower number"
    )]
    Unseen(u32),
    /// The sleep area is not within the table's usable blocks.
    #[error(
        "partition {area}, a sleep area, is not within the partition table's usable blocks, \
         {first} to {last}: move it"
    )]
    NotUsable {
        /// The number of the area's partition.
        area: u32,
        /// The first usable block.
        first: u64,
        /// The last usable block.
        last: u64,
    },
    /// The sleep area overlaps the partition table.
    #[error("partition {0}, a sleep area, overlaps the partition table: move it")]
    OnTable(u32),
    /// The sleep area overlaps another partition.
    #[error("partition {area}, a sleep area, overlaps partition {other}: move one of them")]
    Overlap {
        /// The number of the area's partition.
        area: u32,
        /// The number of the other one.
        other: u32,
    },
    /// The sleep area overlaps a partition of the MBR, which other systems may use.
    #[error(
        "partition {area}, a sleep area, overlaps partition {record} of the MBR: make the MBR \
         protective with gdisk"
    )]
    OverlapMbr {
        /// The number of the area's partition.
        area: u32,
        /// The number of the MBR's partition, from 1.
        record: u32,
    },
    /// Beside the table, the disk has a content to which all its blocks belong.
    #[error(
        "the disk has a sleep area, partition {area}, but is also {content} as a whole: erase one \
         of them with wipefs"
    )]
    WholeDisk {
        /// The number of the area's partition.
        area: u32,
        /// The content.
        content: Content,
    },
    /// More sleep areas than [`MAX_AREAS`].
    #[error("the disk has more than {MAX_AREAS} sleep areas")]
    TooMany,
    /// There are more other partitions than an image can guard.
    #[error("the disk has more than {MAX_PARTITIONS} partitions; an image cannot guard more")]
    TooManyOthers,
    /// A block is neither 512 nor 4096 bytes long.
    #[error("the disk has blocks of {0} bytes; supported are 512 and 4096")]
    BlockSize(u32),
    /// An entry of the table has another length than those that Linux reads.
    #[error("the partition table has entries of {0} bytes; supported are 128")]
    EntrySize(u32),
    /// The table is too long.
    #[error("the partition table has {0} entries; supported are up to {MAX_ENTRIES}")]
    Entries(u32),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

impl GptError {
    /// Whether the disk has a partition that is meant as a sleep area. Otherwise the disk may be
    /// unrelated to sleep.
    #[must_use]
    pub fn concerns_area(&self) -> bool {
        match self {
            GptError::OnlyBackup(_)
            | GptError::LongerDisk(_)
            | GptError::BeyondDisk(_)
            | GptError::Reversed(_)
            | GptError::Unseen(_)
            | GptError::NotUsable { .. }
            | GptError::OnTable(_)
            | GptError::Overlap { .. }
            | GptError::OverlapMbr { .. }
            | GptError::WholeDisk { .. }
            | GptError::TooMany => true,
            GptError::Damaged
            | GptError::TooManyOthers
            | GptError::BlockSize(_)
            | GptError::EntrySize(_)
            | GptError::Entries(_)
            | GptError::Medium(_) => false,
        }
    }
}
