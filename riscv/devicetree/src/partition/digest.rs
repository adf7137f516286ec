use poorwill_memory::MachineIdentity;
use poorwill_pci::placement::PlacedFunction;

use super::node::{DomainNode, FunctionRange, Partition};
use crate::identity::{Digest, digest};

impl Partition {
    /// A hash of the partition, for a machine's identity.
    ///
    /// Next stages, their arguments and the boot harts are left out. They matter at a cold boot
    /// only, and may differ between power-ons, as the rest of `/chosen`.
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest(|into| {
            into.word(self.domains.len() as u64);
            self.domains.iter().for_each(|domain| domain.feed(into));
            // Stored images have digests of partitions without these.
            if !self.functions.is_empty() {
                feed_functions(&self.functions, &self.ranges, into);
            }
        })
    }

    /// The identity of a machine with this partition, from its identity without one
    /// ([`Machine::identity`](crate::Machine::identity)). A machine without a partition keeps that.
    #[must_use]
    pub fn identity(&self, machine: MachineIdentity) -> MachineIdentity {
        identity_with(self.digest(), machine)
    }
}

/// As [`Partition::identity`], from the partition's digest.
#[must_use]
pub fn identity_with(partition: u64, machine: MachineIdentity) -> MachineIdentity {
    MachineIdentity {
        device_tree: digest(|into| {
            into.word(machine.device_tree);
            into.word(partition);
        }),
        ..machine
    }
}

impl DomainNode {
    fn feed(&self, into: &mut Digest<'_>) {
        into.bytes(self.name.as_bytes());
        into.word(u64::from(self.may_suspend) | u64::from(self.may_reset) << 1);
        into.word(self.wake_order.into());
        into.word(self.harts.len() as u64);
        self.harts.iter().for_each(|hart| into.word(*hart));
        into.word(self.regions.len() as u64);
        for region in &self.regions {
            into.word(region.base);
            let kind = u64::from(region.is_mmio) << 8 | u64::from(region.order);
            into.word(u64::from(region.permissions.bits()) << 16 | kind);
        }
        into.word(self.devices.len() as u64);
        (self.devices.iter()).for_each(|device| into.word((*device).into()));
        feed_functions(&self.functions, &self.ranges, into);
    }
}

fn feed_functions(functions: &[PlacedFunction], ranges: &[FunctionRange], into: &mut Digest<'_>) {
    into.word(functions.len() as u64);
    for one in functions {
        let buses = one.buses.map_or(u64::MAX, |(first, last)| {
            u64::from(first) << 8 | u64::from(last)
        });
        into.word(one.function.routing_id().into());
        into.word(buses);
    }
    into.word(ranges.len() as u64);
    for range in ranges {
        into.word(range.function.routing_id().into());
        let kind = range.kind as u64 | u64::from(range.is_prefetchable) << 4;
        into.word(u64::from(range.register) << 8 | kind);
        into.word(range.range.start);
        into.word(range.range.end);
    }
}
