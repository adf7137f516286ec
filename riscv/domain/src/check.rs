//! Whether the domains of a partition can be fenced from each other on their machine. The firmware
//! asks before it starts a domain, and the host command `poorwill domains check` asks of a tree.
//!
//! Each finding has a name and a remedy ([`Unfenced`]). Facts that neither the tree nor the caller
//! states are named, too ([`Unseen`]): the firmware looks at the bus for them.

mod controllers;
mod dma;
mod intx;
mod map;
mod plan;
mod scene;
mod unfenced;

use poorwill_devicetree::Partition;

use crate::kept::KeptRanges;

pub use intx::{IntxLine, intx_line};
pub(crate) use plan::Grant;
pub use plan::entries_of;
pub use scene::Facts;
use scene::Scene;
pub use unfenced::{Owner, Unfenced, Unseen};

/// Checks that all domains of a partition can be fenced from each other.
///
/// # Errors
///
/// The first finding. [`findings`] has the others.
pub fn check(partition: &Partition, facts: &Facts<'_>) -> Result<(), Unfenced> {
    let mut first = None;
    findings(partition, facts, &mut |finding| {
        first.get_or_insert(finding);
    });
    first.map_or(Ok(()), Err)
}

/// Calls `tell` for each reason why domains cannot be fenced from each other.
///
/// A [lone domain](Partition::lone) is fenced from machine mode alone, so only its permissions and
/// its PMP plan count.
pub fn findings(partition: &Partition, facts: &Facts<'_>, tell: &mut dyn FnMut(Unfenced)) {
    let kept = match KeptRanges::new(partition, facts.machine, facts.firmware) {
        Ok(kept) => kept,
        Err(error) => return tell(Unfenced::TooManyKept(error)),
    };
    if partition.lone().is_none() {
        let scene = Scene {
            partition,
            facts,
            kept: &kept,
        };
        map::overlaps(&scene, tell);
        controllers::look(&scene, tell);
        dma::look(&scene, tell);
        intx::shared_sources(partition, facts, tell);
    }
    plan::permissions(partition, tell);
    if let Some(pmp) = facts.pmp {
        plan::look(partition, &kept, pmp, tell);
    }
}

/// The facts that decide, too, but that only the bus or the caller shows.
pub fn unseen(partition: &Partition, facts: &Facts<'_>) -> impl Iterator<Item = Unseen> {
    let has_functions = (partition.domains.iter()).any(|domain| !domain.functions.is_empty());
    let is_fenced = partition.lone().is_none();
    let on_the_bus = [
        Unseen::RootPorts,
        Unseen::VirtioPlatform,
        Unseen::InterruptPins,
    ];
    let on_the_bus = on_the_bus.into_iter().filter(move |_| has_functions);
    let pmp = facts.pmp.is_none().then_some(Unseen::Pmp);
    let disks = facts.sleep_disks.is_none() && is_fenced;
    let disks = disks.then_some(Unseen::SleepDisks);
    let bridges = dma::has_open_bridge(partition).then_some(Unseen::BehindBridges);
    on_the_bus.chain(bridges).chain(pmp).chain(disks)
}
