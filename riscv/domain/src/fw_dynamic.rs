use poorwill_memory::PhysRange;
use thiserror::Error;
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, big_endian, little_endian,
};

use crate::linux_image::LinuxImage;

/// What a previous boot stage leaves for the firmware at a2 (OpenSBI,
/// include/sbi/fw_dynamic.h).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Information {
    magic: little_endian::U64,
    version: little_endian::U64,
    next_address: little_endian::U64,
    next_mode: little_endian::U64,
    _options: little_endian::U64,
    /// From version 2 on; all ones for any hart.
    boot_hart: little_endian::U64,
}

/// "OSBI".
const INFORMATION_MAGIC: u64 = 0x4942_534f;
/// What it is aligned to.
const INFORMATION_ALIGN: u64 = 8;
/// The next stage runs in S-mode.
const SUPERVISOR: u64 = 1;

/// The start of a device tree blob (Devicetree Specification 0.4, section 5.2).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TreeHeader {
    magic: big_endian::U32,
    total_size: big_endian::U32,
}

const TREE_MAGIC: u32 = 0xd00d_feed;
/// What a blob is aligned to at least.
const TREE_ALIGN: u64 = 4;
/// More than any device tree has; a larger one is taken for damage.
const MAX_TREE: u32 = 2 << 20;
/// Room that the tree is given to grow by.
pub const TREE_GROWTH: u64 = 8192;

/// What an image is aligned to at least.
const IMAGE_ALIGN: u64 = 8;

/// Bytes that a next stage is taken to need that does not tell: a boot loader, before
/// it moves itself.
const NEXT_STAGE_BYTES: u64 = 32 << 20;

/// Why what a previous stage left says nothing of a next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FwDynamicError {
    /// a2 does not point at fw_dynamic information.
    #[error("no fw_dynamic information at {0:#x}")]
    NoInformation(u64),
    /// The next stage is not an S-mode one.
    #[error("the next stage is to run in mode {0}; only S-mode (1) is supported")]
    Mode(u64),
    /// a1 does not point at a device tree.
    #[error("no device tree at {0:#x}")]
    NoTree(u64),
}

/// What the previous stage says of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FwDynamic {
    /// Where the next stage starts.
    pub address: u64,
    /// The device tree blob.
    pub tree: PhysRange,
    /// The hart that the next stage is to start on, if it is all the same to the machine.
    pub boot_hart: Option<u64>,
}

impl FwDynamic {
    /// Finds the device tree blob at `tree`, which the previous stage passed in a1. `load`
    /// fills a buffer with what memory holds from an address on; it is asked for nothing at
    /// addresses that cannot be right.
    ///
    /// # Errors
    ///
    /// [`FwDynamicError::NoTree`].
    pub fn find_tree(
        tree: u64,
        load: impl FnOnce(u64, &mut [u8]),
    ) -> Result<PhysRange, FwDynamicError> {
        let no_tree = FwDynamicError::NoTree(tree);
        if !can_be(tree, TREE_ALIGN) {
            return Err(no_tree);
        }
        let mut header = TreeHeader::new_zeroed();
        load(tree, header.as_mut_bytes());
        let tree_bytes = header.total_size.get();
        if header.magic.get() != TREE_MAGIC || tree_bytes > MAX_TREE {
            return Err(no_tree);
        }
        Ok(PhysRange::new(tree, tree_bytes.into()))
    }

    /// Reads what lies at `information`, which it passed in a2. `load` as for
    /// [`find_tree`](Self::find_tree), which found `tree`.
    ///
    /// # Errors
    ///
    /// [`FwDynamicError::NoInformation`], [`FwDynamicError::Mode`].
    pub fn read(
        tree: PhysRange,
        information: u64,
        load: impl FnOnce(u64, &mut [u8]),
    ) -> Result<Self, FwDynamicError> {
        let no_information = FwDynamicError::NoInformation(information);
        if !can_be(information, INFORMATION_ALIGN) {
            return Err(no_information);
        }
        let mut found = Information::new_zeroed();
        load(information, found.as_mut_bytes());
        if found.magic.get() != INFORMATION_MAGIC {
            return Err(no_information);
        }
        if found.next_mode.get() != SUPERVISOR {
            return Err(FwDynamicError::Mode(found.next_mode.get()));
        }
        let has_boot_hart = found.version.get() >= 2 && found.boot_hart.get() != u64::MAX;
        Ok(FwDynamic {
            address: found.next_address.get(),
            tree,
            boot_hart: has_boot_hart.then(|| found.boot_hart.get()),
        })
    }

    /// The harts that can run the OS (`usable`, by their IDs) in the order in which they are
    /// to boot the machine: the one that the previous stage prefers, then the others.
    pub fn boot_order<'a>(&self, usable: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let preferred = self.boot_hart.filter(|hart| usable.contains(hart));
        let others = usable.iter().copied();
        let others = others.filter(move |hart| Some(*hart) != preferred);
        preferred.into_iter().chain(others)
    }

    /// Where in `memory` the next stage and the device tree lie, which grows before it
    /// is handed on. `load` as for [`read`](Self::read); it is asked for nothing but
    /// memory.
    pub fn taken(&self, memory: &[PhysRange], load: impl FnOnce(u64, &mut [u8])) -> [PhysRange; 2] {
        let tree_bytes = self.tree.length() + TREE_GROWTH;
        let image_bytes = self.image_bytes(memory, load);
        [
            PhysRange::new(self.address, image_bytes.unwrap_or(NEXT_STAGE_BYTES)),
            PhysRange::new(self.tree.start, tree_bytes),
        ]
    }

    /// What the next stage says of its size, if it is a Linux.
    fn image_bytes(&self, memory: &[PhysRange], load: impl FnOnce(u64, &mut [u8])) -> Option<u64> {
        let end = self.address.checked_add(LinuxImage::HEADER_BYTES as u64)?;
        let is_there = |range: &PhysRange| range.start <= self.address && end <= range.end;
        if !self.address.is_multiple_of(IMAGE_ALIGN) || !memory.iter().any(is_there) {
            return None;
        }
        let mut header = [0; LinuxImage::HEADER_BYTES];
        load(self.address, &mut header);
        LinuxImage::read(&header).map(|image| image.bytes)
    }
}

/// Whether something that is aligned so can lie there.
fn can_be(address: u64, align: u64) -> bool {
    address != 0 && address.is_multiple_of(align)
}
