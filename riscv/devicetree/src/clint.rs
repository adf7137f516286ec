//! The harts of a SiFive CLINT.

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;

use crate::bound::{self, TooMany};
use crate::hart::MAX_HARTS;
use crate::node::hart_interrupts;

/// Maximum number of harts of a CLINT, including monitor cores.
const MAX_CLINT_HARTS: usize = 2 * MAX_HARTS;

/// Calls `take` with each interrupt: phandle of its hart's controller, number of the interrupt, and
/// the hart's index in the registers.
///
/// Harts are numbered by first appearance, connected or not: a monitor hart's phandle may be
/// 0xffffffff.
pub(crate) fn for_each_interrupt(
    node: FdtNode<'_>,
    mut take: impl FnMut(u32, u32, u64),
) -> Result<(), TooMany> {
    let mut numbered: ArrayVec<u32, MAX_CLINT_HARTS> = ArrayVec::new();
    for (controller, interrupt) in hart_interrupts(node) {
        let place = match numbered.iter().rposition(|other| *other == controller) {
            Some(place) => place,
            None => {
                bound::push(&mut numbered, "harts of a CLINT", controller)?;
                numbered.len() - 1
            }
        };
        take(controller, interrupt, place as u64);
    }
    Ok(())
}
