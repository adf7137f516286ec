use poorwill_devicetree::edit;
use poorwill_memory::PhysRange;

use crate::error::LoadError;

/// Writes the place of the initramfs and the command line to `/chosen` of the device tree at the
/// start of `buffer`. The rest of the buffer is room to grow. A `None` leaves its property
/// unchanged.
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
