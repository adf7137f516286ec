use dtoolkit::fdt_mut::{FdtMut, SliceBuffer};
use poorwill_memory::PhysRange;

use crate::error::LoadError;

/// Says in the device tree, which lies at the start of `buffer`, where the initramfs
/// lies; the rest of the buffer is room to grow.
///
/// # Errors
///
/// [`LoadError::Tree`].
pub fn tell_initrd(buffer: &mut [u8], initrd: PhysRange) -> Result<(), LoadError> {
    let mut tree: FdtMut<SliceBuffer<'_>> =
        FdtMut::from_slice(buffer).map_err(|_| LoadError::Tree)?;
    let mut chosen = tree.find_node_mut("/chosen").ok_or(LoadError::Tree)?;
    for (name, address) in [
        ("linux,initrd-start", initrd.start),
        ("linux,initrd-end", initrd.end),
    ] {
        chosen.remove_property(name);
        (chosen.add_property(name, address)).map_err(|_| LoadError::Tree)?;
    }
    Ok(())
}
