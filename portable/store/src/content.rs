//! Recognizes a partition's content by the signatures at its start.
//!
//! A fingerprint covers a partition's first 128 KiB. For some file systems it changes
//! whenever they are mounted for writing; for other contents a write may not change it.

use core::fmt;

use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use zerocopy::IntoBytes;

/// The content of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Content {
    /// All zeros.
    Empty = 0,
    /// No known signature.
    Unknown = 1,
    /// ext2, ext3 or ext4.
    Ext = 2,
    /// XFS with checksums (version 5).
    Xfs = 3,
    /// Btrfs.
    Btrfs = 4,
    /// The external journal of an ext4.
    ExtJournal = 5,
    /// XFS without checksums.
    OldXfs = 6,
    /// FAT12, FAT16 or FAT32, such as an EFI system partition.
    Fat = 7,
    /// exFAT.
    ExFat = 8,
    /// NTFS.
    Ntfs = 9,
    /// F2FS.
    F2fs = 10,
    /// Bcachefs.
    Bcachefs = 11,
    /// SquashFS.
    Squashfs = 12,
    /// EROFS.
    Erofs = 13,
    /// Swap, or a Linux hibernation image.
    Swap = 14,
    /// A physical volume of LVM.
    Lvm = 15,
    /// An encrypted volume.
    Luks = 16,
    /// A member of a Linux software RAID with its superblock at the start (versions 1.1
    /// and 1.2).
    Raid = 17,
    /// A device of bcache.
    Bcache = 18,
}

impl Content {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Content; 19] = [
        Content::Empty,
        Content::Unknown,
        Content::Ext,
        Content::Xfs,
        Content::Btrfs,
        Content::ExtJournal,
        Content::OldXfs,
        Content::Fat,
        Content::ExFat,
        Content::Ntfs,
        Content::F2fs,
        Content::Bcachefs,
        Content::Squashfs,
        Content::Erofs,
        Content::Swap,
        Content::Lvm,
        Content::Luks,
        Content::Raid,
        Content::Bcache,
    ];

    pub(crate) fn of_number(number: u32) -> Option<Content> {
        (Content::ALL.into_iter()).find(|content| *content as u32 == number)
    }

    /// Whether the fingerprint changes whenever an OS mounts the partition and writes.
    /// The test `what_is_guarded_changes_when_a_file_is_rewritten` mounts each kind
    /// listed here. XFS is not guarded: it writes to its log, and updates its superblock
    /// only at unmount.
    #[must_use]
    pub fn is_guarded(self) -> bool {
        matches!(self, Content::Empty | Content::Ext | Content::Btrfs)
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Content::Empty => "nothing",
            Content::Unknown => "unknown content",
            Content::Ext => "ext2, ext3 or ext4",
            Content::Xfs => "XFS",
            Content::Btrfs => "Btrfs",
            Content::ExtJournal => "the journal of an ext4",
            Content::OldXfs => "XFS without checksums",
            Content::Fat => "FAT",
            Content::ExFat => "exFAT",
            Content::Ntfs => "NTFS",
            Content::F2fs => "F2FS",
            Content::Bcachefs => "bcachefs",
            Content::Squashfs => "SquashFS",
            Content::Erofs => "EROFS",
            Content::Swap => "swap",
            Content::Lvm => "LVM",
            Content::Luks => "LUKS",
            Content::Raid => "software RAID",
            Content::Bcache => "bcache",
        })
    }
}

/// A kind of content, and its signature at an offset in bytes from the partition's start.
struct Signature(Content, u64, &'static [u8]);

/// All signatures. If several match, the first in this list counts. Volumes of lower
/// layers precede file systems, because a stale file system may lie below them. Contents
/// that cannot be guarded precede those that can.
const SIGNATURES: &[Signature] = &[
    Signature(Content::Luks, 0, b"LUKS\xba\xbe"),
    // LVM's label lies in one of the first four sectors.
    Signature(Content::Lvm, 0, b"LABELONE"),
    Signature(Content::Lvm, 0x200, b"LABELONE"),
    Signature(Content::Lvm, 0x400, b"LABELONE"),
    Signature(Content::Lvm, 0x600, b"LABELONE"),
    Signature(Content::Raid, 0, MARK_OF_RAID),
    Signature(Content::Raid, 0x1000, MARK_OF_RAID),
    Signature(
        Content::Bcache,
        0x1018,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    Signature(
        Content::Bcachefs,
        0x1018,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    // At the end of a page of 4, 8, 16, 32 or 64 KiB.
    Signature(Content::Swap, 0x1000 - 10, b"SWAPSPACE2"),
    Signature(Content::Swap, 0x2000 - 10, b"SWAPSPACE2"),
    Signature(Content::Swap, 0x4000 - 10, b"SWAPSPACE2"),
    Signature(Content::Swap, 0x8000 - 10, b"SWAPSPACE2"),
    Signature(Content::Swap, 0x1_0000 - 10, b"SWAPSPACE2"),
    Signature(Content::Swap, 0x1000 - 10, b"SWAP-SPACE"),
    Signature(Content::Swap, 0x1000 - 10, b"S1SUSPEND\0"),
    Signature(Content::F2fs, 0x400, b"\x10\x20\xf5\xf2"),
    Signature(Content::Erofs, 0x400, b"\xe2\xe1\xf5\xe0"),
    Signature(Content::Squashfs, 0, b"hsqs"),
    Signature(Content::ExFat, 3, b"EXFAT   "),
    Signature(Content::Ntfs, 3, b"NTFS    "),
    Signature(Content::Fat, 0x36, b"FAT1"),
    Signature(Content::Fat, 0x52, b"FAT32   "),
    Signature(Content::Ext, 0x438, b"\x53\xef"),
    Signature(Content::Xfs, 0, b"XFSB"),
    Signature(Content::Btrfs, 0x1_0040, b"_BHRfS_M"),
];

/// The first bytes of a software RAID's superblock.
pub(crate) const MARK_OF_RAID: &[u8] = b"\xfc\x4e\x2b\xa9";

/// The signatures of contents that a disk can have as a whole, with an old partition table
/// that stays valid: each with its offset from the disk's start, after the MBR. `mkswap` keeps
/// the first KiB, and LVM and software RAID keep what lies before their labels. All other
/// contents overwrite the MBR or the block after it when they are made. A stale signature of
/// these would refuse a disk for nothing.
pub(crate) fn beside_table() -> impl Iterator<Item = (Content, u64, &'static [u8])> {
    const MBR_BYTES: u64 = 0x200;
    // Linux on RISC-V has pages of 4 KiB.
    let last = |content| match content {
        Content::Swap => PAGE_BYTES,
        Content::Lvm | Content::Raid => 0x1000,
        _ => 0,
    };
    let signatures = SIGNATURES.iter();
    let of_disks = signatures
        .filter(move |Signature(content, at, _)| (MBR_BYTES..=last(*content)).contains(at));
    of_disks.map(|Signature(content, at, mark)| (*content, *at, *mark))
}

/// Recognizes a partition's content, page by page from its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recognition {
    /// The signatures that match: one bit for each index in [`SIGNATURES`].
    found: u32,
    /// At least one byte is not zero.
    is_used: bool,
    /// The version of an XFS: the low four bits of sb_versionnum, which is big-endian.
    xfs_version: u8,
    /// The low byte of an ext4's s_feature_incompat.
    ext_features: u8,
}

const _: () = assert!(SIGNATURES.len() <= 32);

const XFS_VERSION: usize = 101;
/// The version with checksums. Its superblock holds the log position of its last change.
const XFS_CHECKSUMS: u8 = 5;

const EXT_FEATURES: usize = 0x460;
const JOURNAL_DEVICE: u8 = 1 << 3;

impl Recognition {
    /// Examines page `number`. No signature crosses a page boundary.
    pub(crate) fn look(&mut self, number: u64, page: &Page) {
        if page.0.iter().all(|word| *word == 0) {
            return;
        }
        self.is_used = true;
        let bytes = page.0.as_bytes();
        for (index, Signature(_, at, mark)) in SIGNATURES.iter().enumerate() {
            let place = to_usize(at % PAGE_BYTES);
            if at / PAGE_BYTES == number && bytes[place..].starts_with(mark) {
                self.found |= 1 << index;
            }
        }
        if number == 0 {
            self.xfs_version = bytes[XFS_VERSION] & 0xf;
            self.ext_features = bytes[EXT_FEATURES];
        }
    }

    pub(crate) fn content(self) -> Content {
        if !self.is_used {
            return Content::Empty;
        }
        let first = SIGNATURES.get(self.found.trailing_zeros() as usize);
        match first.map(|Signature(content, ..)| *content) {
            Some(Content::Xfs) if self.xfs_version != XFS_CHECKSUMS => Content::OldXfs,
            Some(Content::Ext) if self.ext_features & JOURNAL_DEVICE != 0 => Content::ExtJournal,
            Some(content) => content,
            None => Content::Unknown,
        }
    }
}
