use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use super::error::PartitionError;
use super::limits::MAX_PARTITION_HARTS;
use crate::node::{can_run_os, cell, is_enabled_hart, phandle, reg};

const ASSIGNMENT: &str = "opensbi-domain";

/// A CPU node.
pub(super) struct Cpu {
    pub(super) id: u64,
    pub(super) phandle: Option<u32>,
    /// Phandle of its domain.
    pub(super) domain: Option<u32>,
    pub(super) is_enabled: bool,
    /// Whether an OS can start on it.
    pub(super) can_run: bool,
}

impl Cpu {
    /// All CPUs, in the tree's order.
    pub(super) fn all(
        root: FdtNode<'_>,
    ) -> Result<ArrayVec<Cpu, MAX_PARTITION_HARTS>, PartitionError> {
        let mut all = ArrayVec::new();
        let nodes = root
            .child("cpus")
            .into_iter()
            .flat_map(|cpus| cpus.children());
        for node in nodes {
            let Some(id) = reg(node, 0) else {
                continue;
            };
            let cpu = Cpu {
                id: id.start,
                phandle: phandle(node),
                domain: cell(node, ASSIGNMENT),
                is_enabled: is_enabled_hart(node),
                can_run: can_run_os(node),
            };
            all.try_push(cpu)
                .map_err(|_| PartitionError::TooManyHarts)?;
        }
        Ok(all)
    }

    pub(super) fn find(cpus: &[Cpu], phandle: u32) -> Option<&Cpu> {
        cpus.iter().find(|cpu| cpu.phandle == Some(phandle))
    }
}
