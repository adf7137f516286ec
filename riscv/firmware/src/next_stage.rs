//! The next stage: what the previous one says of it (fw_dynamic), and the
//! device tree that it is given.

use poorwill_devicetree::{FixupError, Fixups, fixup};
use poorwill_domain::Domain;
use poorwill_hart::Resume;
use poorwill_memory::PhysRange;
use poorwill_sleep::{Report, Startup};
use thiserror::Error;

use crate::platform::{Platform, entropy};
use crate::report;
use crate::sleep::ColdBoot;

/// What a previous stage leaves for fw_dynamic (OpenSBI, fw_dynamic.h).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Information {
    magic: u64,
    version: u64,
    next_address: u64,
    next_mode: u64,
    options: u64,
    /// From version 2 on.
    boot_hart: u64,
}

/// "OSBI".
const MAGIC: u64 = 0x4942_534f;
/// The next stage runs in S-mode.
const SUPERVISOR: u64 = 1;

/// The header of a device tree: magic and total size, big-endian.
const TREE_MAGIC: u32 = 0xd00d_feed;
/// More than any device tree has; a larger one is taken for damage.
const MAX_TREE: u32 = 2 << 20;
/// Room that the tree is given to grow by.
const TREE_GROWTH: usize = 4096;

/// Why the next stage cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NextStageError {
    /// a2 does not point at fw_dynamic information.
    #[error("no fw_dynamic information at {0:#x}")]
    NoInformation(usize),
    /// The next stage is not an S-mode one.
    #[error("the next stage is to run in mode {0}; only S-mode (1) is supported")]
    Mode(u64),
    /// a1 does not point at a device tree.
    #[error("no device tree at {0:#x}")]
    NoTree(usize),
    /// The next stage does not lie in the OS's memory.
    #[error("the next stage at {0:#x} is not in OS memory")]
    Address(u64),
    /// The device tree cannot be handed on.
    #[error(transparent)]
    Fixup(#[from] FixupError),
}

/// The next stage, as the previous one wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextStage {
    address: u64,
}

/// The device tree blob in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    address: usize,
    length: usize,
}

impl Tree {
    /// Its bytes.
    ///
    /// The blob lies in memory that is not yet the OS's; nothing writes it
    /// while the slice is used but [`NextStage::prepare`], which takes the tree.
    pub(crate) fn bytes(&self) -> &'static [u8] {
        let start = core::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: `read` found a blob of this length there.
        unsafe { core::slice::from_raw_parts(start, self.length) }
    }
}

/// Bytes that a next stage is taken to need that does not tell: a boot loader, before
/// it moves itself.
const NEXT_STAGE_BYTES: u64 = 32 << 20;

/// The header of Linux's image (Documentation/arch/riscv/boot-image-header.rst).
#[derive(Clone, Copy)]
#[repr(C)]
struct ImageHeader {
    _code: [u32; 2],
    _text_offset: u64,
    /// Uninitialised data included.
    image_bytes: u64,
    _other: [u64; 4],
    magic: u32,
}

/// "RSC\x05".
const IMAGE_MAGIC: u32 = 0x0543_5352;

impl NextStage {
    /// Where in `memory` it and the device tree lie, which grows before it is handed on.
    ///
    /// # Safety
    ///
    /// `memory` is memory, and nothing else.
    pub(crate) unsafe fn taken(self, tree: &Tree, memory: &[PhysRange]) -> [PhysRange; 2] {
        let header = PhysRange::new(self.address, size_of::<ImageHeader>() as u64);
        let is_memory = |range: &PhysRange| range.start <= header.start && header.end <= range.end;
        let header = core::ptr::with_exposed_provenance::<ImageHeader>(self.address as usize);
        let told = (header.is_aligned() && memory.iter().any(is_memory))
            // SAFETY: aligned, and memory.
            .then(|| unsafe { header.read() })
            .filter(|header| header.magic == IMAGE_MAGIC)
            .map(|header| header.image_bytes);
        let tree_bytes = (tree.length + TREE_GROWTH) as u64;
        [
            PhysRange::new(self.address, told.unwrap_or(NEXT_STAGE_BYTES)),
            PhysRange::new(tree.address as u64, tree_bytes),
        ]
    }
}

/// Reads what the previous stage left.
///
/// # Errors
///
/// [`NextStageError`].
///
/// # Safety
///
/// The addresses are what the previous stage passed in a1 and a2: they may be
/// wrong, but reading there has no side effects.
pub(crate) unsafe fn read(
    tree: usize,
    information: usize,
) -> Result<(NextStage, Tree), NextStageError> {
    let header = core::ptr::with_exposed_provenance::<[u32; 2]>(tree);
    let pointer = core::ptr::with_exposed_provenance::<Information>(information);
    if tree == 0 || !header.is_aligned() {
        return Err(NextStageError::NoTree(tree));
    }
    if information == 0 || !pointer.is_aligned() {
        return Err(NextStageError::NoInformation(information));
    }
    // SAFETY: aligned, and readable says the caller.
    let ([magic, length], information_there) = unsafe { (header.read(), pointer.read()) };
    let length = u32::from_be(length);
    if u32::from_be(magic) != TREE_MAGIC || length > MAX_TREE {
        return Err(NextStageError::NoTree(tree));
    }
    let Information {
        magic,
        next_address,
        next_mode,
        ..
    } = information_there;
    if magic != MAGIC {
        return Err(NextStageError::NoInformation(information));
    }
    if next_mode != SUPERVISOR {
        return Err(NextStageError::Mode(next_mode));
    }
    let tree = Tree {
        address: tree,
        length: length as usize,
    };
    Ok((
        NextStage {
            address: next_address,
        },
        tree,
    ))
}

impl NextStage {
    /// Makes the device tree ready for it, and tells it why the machine boots
    /// cold; returns where it starts, and with what.
    ///
    /// # Errors
    ///
    /// [`NextStageError::Address`], [`NextStageError::Fixup`].
    pub(crate) fn prepare(
        self,
        tree: Tree,
        platform: &Platform,
        domain: &Domain,
        reason: ColdBoot,
    ) -> Result<Resume, NextStageError> {
        let entry = domain.entry();
        let entry = entry.map_err(|_| NextStageError::Address(self.address))?;
        let place = domain.next_stage.tree;
        let room = domain.bytes(place.length(), place.start, 0);
        let room = room.map_or(tree.length, |room| room.length() as usize);
        let start = core::ptr::with_exposed_provenance_mut::<u8>(tree.address);
        // SAFETY: the blob and, where there is room, memory behind it that is
        // the OS's and thus nobody's before it starts; previous stages leave
        // such room, as OpenSBI grows the tree in place too.
        let buffer = unsafe { core::slice::from_raw_parts_mut(start, room) };
        let vault = platform.vault;
        let text = Startup::Cold(&reason).text();
        let generation_id = platform.generation_id.as_ref().map(|id| {
            id.renew();
            id.description()
        });
        let fixups = Fixups {
            firmware: &platform.firmware,
            flash: vault.as_slice(),
            seed: entropy::os_seed(),
            generation_id,
            report: &text,
        };
        let offset = fixup(buffer, &fixups)?;
        report::remember(Report {
            address: (tree.address + offset) as u64,
            text,
        });
        Ok(Resume {
            address: entry.get(),
            argument: tree.address as u64,
        })
    }
}
