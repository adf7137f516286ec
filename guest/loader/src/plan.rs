use poorwill_devicetree::Machine;
use poorwill_domain::LinuxImage;
use poorwill_memory::PAGE_BYTES;

use crate::error::LoadError;
use crate::items::{Item, Items};
use crate::piece::Piece;
use crate::place::{Free, Taken};

/// Alignment of a Linux kernel, which maps itself by pages of this size
/// (Documentation/arch/riscv/boot.rst). Linux also uses the rest of its last such page, which its
/// documentation does not say.
const LINUX_ALIGN: u64 = 2 << 20;

/// Where each piece is loaded. The pieces do not overlap each other, the loader's memory, or
/// reserved memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kernel. Its entry point is the start of its place.
    pub kernel: Piece,
    /// The initramfs; `None`: there is no initramfs.
    pub initrd: Option<Piece>,
}

impl Plan {
    /// Plans the memory for `items` on a machine where `taken` is in use.
    ///
    /// # Errors
    ///
    /// [`LoadError`].
    pub fn make(
        items: &mut impl Items,
        machine: &Machine,
        taken: &Taken,
    ) -> Result<Self, LoadError> {
        let mut free = Free::new(machine, taken)?;
        let kernel = place_kernel(items, &mut free)?;
        let initrd = place_initrd(items, &kernel, &mut free)?;
        let tells = initrd.is_some() || items.length(Item::CommandLine)? > 0;
        if tells && !free.has_tree_room {
            return Err(LoadError::Tree);
        }
        Ok(Plan { kernel, initrd })
    }
}

/// Places the kernel as low as its alignment and text offset allow.
fn place_kernel(items: &mut impl Items, free: &mut Free<'_>) -> Result<Piece, LoadError> {
    let item = Item::Kernel;
    let bytes = items.length(item)?;
    let mut header = [0; LinuxImage::HEADER_BYTES];
    match bytes as usize {
        0 => return Err(LoadError::NoKernel),
        1..LinuxImage::HEADER_BYTES => return Err(LoadError::Truncated(item, bytes)),
        _ => items.read(item, &mut header)?,
    }
    let image = LinuxImage::read(&header).ok_or(LoadError::Format)?;
    if !image.text_offset.is_multiple_of(LINUX_ALIGN) {
        return Err(LoadError::TextOffset(image.text_offset));
    }
    let all = image.bytes.max(bytes.into());
    let whole = all.checked_next_multiple_of(LINUX_ALIGN);
    let whole = whole.ok_or(LoadError::NoRoom(item, all))?;
    let least = free.start_of_memory().saturating_add(image.text_offset);
    let place = free.place(item, whole, LINUX_ALIGN, least)?;
    Ok(Piece { item, bytes, place })
}

/// Places the initramfs after the kernel, since Linux does not use memory before its own start.
fn place_initrd(
    items: &mut impl Items,
    kernel: &Piece,
    free: &mut Free<'_>,
) -> Result<Option<Piece>, LoadError> {
    let item = Item::Initrd;
    let bytes = items.length(item)?;
    if bytes == 0 {
        return Ok(None);
    }
    let place = free.place(item, bytes.into(), PAGE_BYTES, kernel.place.end)?;
    Ok(Some(Piece { item, bytes, place }))
}
