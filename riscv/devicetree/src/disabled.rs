//! Closes disabled controllers of machine mode to the OS. A `status` of "disabled" says only that
//! no driver uses them: their registers still work.

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use crate::binding::Binding;
use crate::bound::TooMany;
use crate::interrupts::{close_aplic, close_imsics};
use crate::node::{BUS_LEVELS, reg};
use crate::own_size::{self, Closing};

/// Closes the machine-mode registers of a disabled node and of all nodes below it.
pub(crate) fn close(
    node: FdtNode<'_>,
    closing: &mut Closing<'_>,
    depth: u8,
) -> Result<(), TooMany> {
    // Bytes of the controller for each range of `reg`, in its order.
    let sizes: &[u64] = match (Binding::of(node), reg(node, 1)) {
        (Some(Binding::Clint), _) => &[own_size::CLINT],
        (Some(Binding::AclintMswi), _) => &[own_size::MSWI],
        (Some(Binding::AclintMtimer), Some(_)) => &[own_size::MTIME, own_size::MTIMECMP],
        // The tree does not say whether this range is MTIME or MTIMECMP.
        (Some(Binding::AclintMtimer), None) => &[own_size::MTIMER],
        (Some(Binding::FwCfg), _) => &[own_size::FW_CFG],
        (Some(Binding::Aplic), _) => return close_aplic(node, closing),
        (Some(Binding::Imsics), _) => return close_imsics(node, closing),
        (None, _) if depth < BUS_LEVELS => {
            let mut below = node.children();
            return below.try_for_each(|node| close(node, closing, depth + 1));
        }
        _ => &[],
    };
    for (place, bytes) in sizes.iter().enumerate() {
        if let Some(range) = reg(node, place) {
            closing.close(node, range, *bytes)?;
        }
    }
    Ok(())
}
