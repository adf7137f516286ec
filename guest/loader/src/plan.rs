use arrayvec::ArrayVec;
use poorwill_devicetree::Machine;
use poorwill_domain::LinuxImage;
use poorwill_memory::{PAGE_BYTES, PhysRange};

use crate::elf::Elf;
use crate::error::LoadError;
use crate::items::{Item, Items};
use crate::kernel_file::KernelFile;
use crate::piece::{MAX_PIECES, MAX_SEGMENTS, Piece};
use crate::place::{Free, Taken};

/// Alignment of a Linux kernel, which maps itself by pages of this size
/// (Documentation/arch/riscv/boot.rst). Linux also uses the rest of its last such page, which its
/// documentation does not say.
const LINUX_ALIGN: u64 = 2 << 20;

/// Where each piece is loaded, and how the kernel starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The pieces. They do not overlap each other, the loader's memory, or reserved memory.
    pub pieces: ArrayVec<Piece, MAX_PIECES>,
    /// The kernel's entry point.
    pub entry: u64,
    /// The memory of the initramfs; `None`: there is no initramfs.
    pub initrd: Option<PhysRange>,
}

/// The kernel's part of the plan.
struct Kernel {
    pieces: ArrayVec<Piece, MAX_SEGMENTS>,
    entry: u64,
}

impl Plan {
    /// Plans the memory for `items` on a machine where `taken` is in use.
    pub fn make(
        items: &mut impl Items,
        machine: &Machine,
        taken: &Taken,
    ) -> Result<Self, LoadError> {
        let mut free = Free::new(machine, taken)?;
        let Kernel { pieces, entry } = place_kernel(&mut KernelFile::open(items)?, &mut free)?;
        let mut pieces: ArrayVec<Piece, MAX_PIECES> = pieces.into_iter().collect();
        let initrd = place_initrd(items, &pieces, &mut free)?;
        pieces.extend(initrd);
        let tells = initrd.is_some() || items.length(Item::CommandLine)? > 0;
        if tells && !free.has_tree_room {
            return Err(LoadError::Tree);
        }
        Ok(Plan {
            pieces,
            entry,
            initrd: initrd.map(|piece| piece.place),
        })
    }
}

/// Places the initramfs after the kernel, since Linux does not use memory before its own start.
fn place_initrd(
    items: &mut impl Items,
    kernel: &[Piece],
    free: &mut Free<'_>,
) -> Result<Option<Piece>, LoadError> {
    let bytes = items.length(Item::Initrd)?;
    if bytes == 0 {
        return Ok(None);
    }
    let ends = kernel.iter().map(|piece| piece.place.end);
    let least = ends.max().unwrap_or(0);
    let place = free.place(Item::Initrd, bytes.into(), PAGE_BYTES, least)?;
    Ok(Some(Piece {
        item: Item::Initrd,
        offset: 0,
        bytes,
        place,
    }))
}

fn place_kernel<I: Items>(
    file: &mut KernelFile<'_, I>,
    free: &mut Free<'_>,
) -> Result<Kernel, LoadError> {
    const { assert!(LinuxImage::HEADER_BYTES == Elf::HEADER_BYTES) }
    let mut header = [0; LinuxImage::HEADER_BYTES];
    file.read(Some(0), &mut header)?;
    if let Some(image) = LinuxImage::read(&header) {
        return place_linux(image, file.length(), free);
    }
    let elf = Elf::read(&header).ok_or(LoadError::Format)?;
    let pieces = elf.segments(file)?;
    let places: ArrayVec<PhysRange, MAX_SEGMENTS> =
        pieces.iter().map(|piece| piece.place).collect();
    let entry = elf.entry;
    if !places.iter().any(|place| place.contains(entry)) {
        return Err(LoadError::Entry(entry));
    }
    free.take(&places)?;
    Ok(Kernel { pieces, entry })
}

/// Places a Linux kernel as low as its alignment and text offset allow.
fn place_linux(image: LinuxImage, length: u32, free: &mut Free<'_>) -> Result<Kernel, LoadError> {
    if !image.text_offset.is_multiple_of(LINUX_ALIGN) {
        return Err(LoadError::TextOffset(image.text_offset));
    }
    let bytes = image.bytes.max(length.into());
    let whole = bytes.checked_next_multiple_of(LINUX_ALIGN);
    let bytes = whole.ok_or(LoadError::NoRoom(Item::Kernel, bytes))?;
    let least = free.start_of_memory().saturating_add(image.text_offset);
    let place = free.place(Item::Kernel, bytes, LINUX_ALIGN, least)?;
    let piece = Piece {
        item: Item::Kernel,
        offset: 0,
        bytes: length,
        place,
    };
    Ok(Kernel {
        pieces: [piece].into_iter().collect(),
        entry: place.start,
    })
}
