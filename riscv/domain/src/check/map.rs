//! Addresses of two domains, and of a domain and machine mode.

use poorwill_devicetree::{DomainNode, Machine, Partition, Span};
use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::unfenced::{Kept, Unfenced};
use super::{Facts, pairs};

/// Bytes of configuration space of a PCI bus (PCI Express Base Specification, 7.2.2).
pub(super) const BUS_BYTES: u64 = 1 << 20;

/// Names each range that two domains may access, even if both may only read it.
pub(super) fn overlaps(partition: &Partition, tell: &mut dyn FnMut(Unfenced)) {
    for (domain, other) in pairs(partition) {
        let mut before: Option<PhysRange> = None;
        let mut report = |range: PhysRange| {
            tell(Unfenced::Overlap {
                domain: domain.name,
                other: other.name,
                start: range.start,
                end: range.end,
            });
        };
        let theirs = other.spans();
        for span in domain.spans() {
            for range in theirs.iter().filter_map(|their| common(&span, their)) {
                match &mut before {
                    Some(before) if before.end == range.start => before.end = range.end,
                    _ => before.replace(range).into_iter().for_each(&mut report),
                }
            }
        }
        before.into_iter().for_each(report);
    }
}

fn common(one: &Span, other: &Span) -> Option<PhysRange> {
    let start = one.range.start.max(other.range.start);
    let end = one.range.end.min(other.range.end);
    (start < end).then_some(PhysRange { start, end })
}

/// Names each resource of machine mode that a domain may access.
pub(super) fn kept(partition: &Partition, facts: &Facts<'_>, tell: &mut dyn FnMut(Unfenced)) {
    for domain in &partition.domains {
        let firmware = facts.firmware.iter().map(|range| (Kept::Firmware, *range));
        for (kept, range) in firmware.chain(kept_of(facts.machine)) {
            if let Some(start) = first_access(domain, range) {
                tell(Unfenced::Kept {
                    domain: domain.name,
                    kept,
                    start,
                });
            }
        }
    }
}

/// The first address in a range that the domain may access.
pub(super) fn first_access(domain: &DomainNode, range: PhysRange) -> Option<u64> {
    // Most ranges are in no region, and spans take time.
    let mut regions = domain.regions.iter();
    regions.find(|region| region.range().overlaps(&range))?;
    let spans = domain.spans();
    let there = spans.iter().find(|span| span.range.overlaps(&range))?;
    Some(there.range.start.max(range.start))
}

/// The devices of machine mode, in whole pages, since PMP entries and mappings have whole pages.
fn kept_of(machine: &Machine) -> impl Iterator<Item = (Kept, PhysRange)> {
    let page = |address: &u64| PhysRange::new(address & !(PAGE_BYTES - 1), PAGE_BYTES);
    let registers = machine.machine_only.iter().copied();
    let iommus = machine.iommus.iter().map(page);
    let buses = (machine.pci.iter()).map(|host| PhysRange::new(host.ecam.start, BUS_BYTES));
    let switches = [machine.power_off, machine.reset].into_iter().flatten();
    let switches = switches.map(move |switch| page(&switch.address));
    let flash = machine.flash.iter().flat_map(|flash| &flash.banks).copied();
    let fw_cfg = machine.fw_cfg.iter().copied();
    let clock = machine.rtc.as_ref().map(page);
    (registers.map(|range| (Kept::MachineRegisters, range)))
        .chain(iommus.map(|range| (Kept::Iommu, range)))
        .chain(buses.map(|range| (Kept::FirstBus, range)))
        .chain(switches.map(|range| (Kept::Switch, range)))
        .chain(flash.map(|range| (Kept::Flash, range)))
        .chain(fw_cfg.map(|range| (Kept::FwCfg, range)))
        .chain(clock.map(|range| (Kept::Clock, range)))
}
