use poorwill_devicetree::edit;
use poorwill_memory::PhysRange;

use crate::error::LoadError;

/// Writes the command line and the addresses of the initramfs into `/chosen` of the device tree.
/// The tree is at the start of `buffer`, and the rest is room for it to grow. `None` leaves a
/// property unchanged.
///
/// # Errors
///
/// [`LoadError`].
pub fn tell(
    buffer: &mut [u8],
    initrd: Option<PhysRange>,
    command_line: Option<&[u8]>,
) -> Result<(), LoadError> {
    let addresses = initrd.map(|range| [range.start, range.end].map(u64::to_be_bytes));
    let [start, end] = [0, 1].map(|index| addresses.as_ref().map(|both| &both[index][..]));
    let mut tree = edit(buffer).ok_or(LoadError::Tree)?;
    let mut chosen = tree.find_node_mut("/chosen").ok_or(LoadError::Tree)?;
    for (name, value) in [
        ("linux,initrd-start", start),
        ("linux,initrd-end", end),
        ("bootargs", command_line),
    ] {
        let Some(value) = value else { continue };
        chosen.remove_property(name);
        (chosen.add_property(name, value)).map_err(|_| LoadError::Tree)?;
    }
    Ok(())
}
