//! The nodes below `/chosen` that describe domains.

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use super::error::PartitionError;
use super::limits::MAX_DOMAINS;
use crate::node::{MAX_DEPTH, is_any};

pub(crate) const CONFIG: &str = "opensbi,domain,config";
const MACHINE_CONFIG: &str = "opensbi,config";

/// A domain.
pub(super) const INSTANCE: &str = "opensbi,domain,instance";

/// The number of domains that `/chosen` describes, well or badly.
pub(crate) fn described(chosen: FdtNode<'_>) -> usize {
    let mut configs = Configs::default();
    match configs.find(chosen, MAX_DEPTH) {
        Ok(()) => configs
            .domains
            .map_or(0, |config| instances(config).count()),
        // The number is unknown, and the partition is refused.
        Err(_) => MAX_DOMAINS,
    }
}

fn instances(config: FdtNode<'_>) -> impl Iterator<Item = FdtNode<'_>> {
    config.children().filter(|node| is_any(*node, &[INSTANCE]))
}

/// Returns whether there is a domain. Without one there is no partition: OpenSBI, too, starts such a
/// machine as one without domains.
pub(super) fn has_instance(config: FdtNode<'_>) -> bool {
    instances(config).next().is_some()
}

/// The nodes below `/chosen` that describe a partition.
#[derive(Default)]
pub(super) struct Configs<'a> {
    pub(super) domains: Option<FdtNode<'a>>,
    pub(super) machine: Option<FdtNode<'a>>,
}

impl<'a> Configs<'a> {
    pub(super) fn of(root: FdtNode<'a>) -> Result<Self, PartitionError> {
        let mut configs = Configs::default();
        if let Some(chosen) = root.child("chosen") {
            configs.find(chosen, MAX_DEPTH)?;
        }
        Ok(configs)
    }

    fn find(&mut self, node: FdtNode<'a>, depth: u32) -> Result<(), PartitionError> {
        let depth = depth.checked_sub(1).ok_or(PartitionError::TooDeep)?;
        for child in node.children() {
            let (place, name) = if is_any(child, &[CONFIG]) {
                (&mut self.domains, CONFIG)
            } else if is_any(child, &[MACHINE_CONFIG]) {
                (&mut self.machine, MACHINE_CONFIG)
            } else {
                self.find(child, depth)?;
                continue;
            };
            if place.replace(child).is_some() {
                return Err(PartitionError::Twice(name));
            }
        }
        Ok(())
    }
}
