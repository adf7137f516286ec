use poorwill_memory::PhysRange;
use thiserror::Error;
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, big_endian, little_endian,
};

use crate::linux_image::LinuxImage;

/// Information that a previous boot stage passes to the firmware in a2 (OpenSBI,
/// include/sbi/fw_dynamic.h).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Information {
    magic: little_endian::U64,
    version: little_endian::U64,
    next_address: little_endian::U64,
    next_mode: little_endian::U64,
    _options: little_endian::U64,
    /// Only since version 2. All ones: any hart.
    boot_hart: little_endian::U64,
}

/// "OSBI".
const INFORMATION_MAGIC: u64 = 0x4942_534f;
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
const TREE_ALIGN: u64 = 4;
/// Maximum size of a device tree in bytes; a larger one counts as damaged.
const MAX_TREE: u32 = 2 << 20;
/// Bytes by which the tree may grow.
pub const TREE_GROWTH: u64 = 8192;

const IMAGE_ALIGN: u64 = 8;

/// Assumed size of a next stage without a Linux header: a boot loader, before it moves itself.
const NEXT_STAGE_BYTES: u64 = 32 << 20;

/// Why the previous stage's information cannot be used.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FwDynamicError {
    #[error("no fw_dynamic information at {0:#x}, the address in a2")]
    NoInformation(u64),
    #[error("fw_dynamic: the next stage's mode is {0}; only S-mode (1) is supported")]
    Mode(u64),
    #[error("no device tree at {0:#x}, the address in a1")]
    NoTree(u64),
}

/// The previous stage's information about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FwDynamic {
    /// Entry point of the next stage.
    pub address: u64,
    /// The device tree blob.
    pub tree: PhysRange,
    /// The hart that the next stage should start on, if the previous stage prefers one.
    pub boot_hart: Option<u64>,
}

impl FwDynamic {
    /// Finds the device tree blob at `tree`, the previous stage's a1. `load` fills a buffer from an
    /// address. It is not called for addresses that cannot be right.
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

    /// Reads the information at `information`, the previous stage's a2. `load` as for
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

    /// The same, without a preference for a hart that may not boot the machine.
    #[must_use]
    pub fn among(self, may_boot: impl FnOnce(u64) -> bool) -> Self {
        FwDynamic {
            boot_hart: self.boot_hart.filter(|hart| may_boot(*hart)),
            ..self
        }
    }

    /// Orders the harts that may boot the machine (`usable`, by ID): the hart that the previous
    /// stage prefers, then the others.
    pub fn boot_order<'a>(&self, usable: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let preferred = self.boot_hart.filter(|hart| usable.contains(hart));
        let others = usable.iter().copied();
        let others = others.filter(move |hart| Some(*hart) != preferred);
        preferred.into_iter().chain(others)
    }

    /// Memory of the next stage and of the device tree with its growth. `load` as for
    /// [`read`](Self::read); it is called only for addresses in `memory`.
    pub fn taken(&self, memory: &[PhysRange], load: impl FnOnce(u64, &mut [u8])) -> [PhysRange; 2] {
        let tree_bytes = self.tree.length() + TREE_GROWTH;
        let image_bytes = self.image_bytes(memory, load);
        [
            PhysRange::new(self.address, image_bytes.unwrap_or(NEXT_STAGE_BYTES)),
            PhysRange::new(self.tree.start, tree_bytes),
        ]
    }

    /// The size in the next stage's header, if it is a Linux.
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

/// Returns whether `address` is non-zero and has this alignment.
fn can_be(address: u64, align: u64) -> bool {
    address != 0 && address.is_multiple_of(align)
}
