//! An interrupt source that no device of the machine uses.

use dtoolkit::fdt::FdtNode;
use dtoolkit::{Node, Property};

use crate::interrupts::Interrupts;
use crate::node::cells_of;

/// A source of the OS's first APLIC domain that is not connected, so that the firmware can raise
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareSource {
    /// Phandle of the APLIC domain.
    pub controller: u32,
    /// Number of the source.
    pub source: u32,
}

/// Properties in which a node names sources.
const NAMING: [&str; 3] = ["interrupts", "interrupts-extended", "interrupt-map"];

/// Source numbers of an APLIC; number 0 is no source.
const NUMBERS: usize = 1024;

/// Finds the highest source of the OS's first domain that no node names.
///
/// Every cell of these properties counts as a source of this domain. In truth it may be another
/// controller's, a phandle or a trigger mode. This excludes some free sources, but needs no
/// knowledge of the entries' lengths.
pub(crate) fn find(root: FdtNode<'_>, interrupts: &Interrupts) -> Option<SpareSource> {
    let os = interrupts.os_aplics.first()?;
    let controller = os.phandle()?;
    if !os.takes_triggers {
        return None;
    }
    let mut used = [false; NUMBERS];
    mark_used(root, &mut used);
    let roots = &interrupts.machine_aplics;
    let is_handed_down = |source: u32| {
        roots.is_empty()
            || roots.iter().any(|root| {
                let own = root.child_index(controller);
                let mut ranges = root.delegated.iter();
                ranges.any(|(child, first, last)| {
                    own == Some(*child) && (*first..=*last).contains(&source)
                })
            })
    };
    let source = (1..=os.sources)
        .rev()
        .find(|source| !used[*source as usize] && is_handed_down(*source))?;
    Some(SpareSource { controller, source })
}

fn mark_used(node: FdtNode<'_>, used: &mut [bool; NUMBERS]) {
    for property in node.properties() {
        if !NAMING.contains(&property.name()) {
            continue;
        }
        for number in cells_of(property) {
            if let Some(place) = used.get_mut(number as usize) {
                *place = true;
            }
        }
    }
    for child in node.children() {
        mark_used(child, used);
    }
}
