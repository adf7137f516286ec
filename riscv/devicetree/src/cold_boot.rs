use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use thiserror::Error;

use crate::hart::{Hart, MAX_HARTS};
use crate::node::{MAX_DEPTH, cells, is_any, phandle, reg};

const CONFIG: &str = "opensbi,config";
const LIST: &str = "cold-boot-harts";

/// The harts that may boot the machine cold: `cold-boot-harts` of a node `opensbi,config` below
/// `/chosen` (OpenSBI, docs/opensbi_config.md).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdBootHarts {
    /// The listed harts that can run an OS, by ID. Without any, each hart may boot.
    pub listed: ArrayVec<u64, MAX_HARTS>,
    /// Why the list is ignored, if it is.
    pub error: Option<ColdBootError>,
}

/// Why a list of cold-boot harts is ignored.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ColdBootError {
    #[error("`cold-boot-harts`: phandle {0:#x} is no CPU's, so each hart may boot")]
    UnknownPhandle(u32),
    #[error("`cold-boot-harts` lists no hart that can run an OS, so each hart may boot")]
    NoHart,
}

impl ColdBootHarts {
    /// Returns whether the hart with this ID may boot the machine cold.
    #[must_use]
    pub fn contain(&self, hart: u64) -> bool {
        self.listed.is_empty() || self.listed.contains(&hart)
    }

    /// Reads the list. `harts` can run an OS.
    pub(crate) fn read(root: FdtNode<'_>, chosen: Option<FdtNode<'_>>, harts: &[Hart]) -> Self {
        match listed(root, chosen, harts) {
            Ok(listed) => ColdBootHarts {
                listed,
                error: None,
            },
            Err(error) => ColdBootHarts {
                listed: ArrayVec::new(),
                error: Some(error),
            },
        }
    }
}

/// The listed harts; none without a list, or with an empty one.
fn listed(
    root: FdtNode<'_>,
    chosen: Option<FdtNode<'_>>,
    harts: &[Hart],
) -> Result<ArrayVec<u64, MAX_HARTS>, ColdBootError> {
    let config = chosen.and_then(|chosen| find_config(chosen, MAX_DEPTH));
    let list = config.and_then(|config| cells(config, LIST));
    let mut list = list.into_iter().flatten().peekable();
    let has_list = list.peek().is_some();
    let mut listed = ArrayVec::new();
    for handle in list {
        let cpus = root.child("cpus");
        let mut cpus = cpus.into_iter().flat_map(|cpus| cpus.children());
        let cpu = cpus.find(|cpu| phandle(*cpu) == Some(handle));
        let id = cpu.and_then(|cpu| reg(cpu, 0)).map(|reg| reg.start);
        let id = id.ok_or(ColdBootError::UnknownPhandle(handle))?;
        // Disabled harts and monitor cores are passed over, as by OpenSBI. There are not more others
        // than `harts`.
        if harts.iter().any(|hart| hart.id == id) && !listed.contains(&id) {
            listed.push(id);
        }
    }
    match has_list && listed.is_empty() {
        true => Err(ColdBootError::NoHart),
        false => Ok(listed),
    }
}

/// The first node of the configuration, at any depth, as OpenSBI searches.
fn find_config(node: FdtNode<'_>, depth: u32) -> Option<FdtNode<'_>> {
    let depth = depth.checked_sub(1)?;
    node.children().find_map(|child| {
        if is_any(child, &[CONFIG]) {
            return Some(child);
        }
        find_config(child, depth)
    })
}
