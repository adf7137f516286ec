//! PCI functions and their DMA.

use poorwill_devicetree::{DomainNode, FunctionRange, MemoryRegion, Partition, unknown_devices};
use poorwill_memory::{PAGE_BYTES, PhysRange};
use poorwill_pci::placement::AddressKind;

use super::scene::{Facts, Functions, Scene, pairs};
use super::unfenced::{Owner, Unfenced};
use crate::kept::BUS_BYTES;

/// Names each device whose DMA or whose addresses reach another domain.
pub(super) fn look(scene: &Scene<'_>, tell: &mut dyn FnMut(Unfenced)) {
    let (facts, domains) = (scene.facts, &scene.partition.domains);
    unknown(scene, tell);
    for domain in domains {
        virtio(domain, scene, tell);
        configuration(domain, scene, tell);
        sleep_disks(domain, facts, tell);
    }
    let owners = Functions::of(scene.partition);
    for functions in &owners {
        host(functions, facts, tell);
        iommu(functions, facts, tell);
        for range in functions.ranges {
            addresses(functions, range, facts, tell);
        }
        for domain in domains {
            foreign_ranges(domain, functions, scene, tell);
        }
    }
    for (functions, other) in pairs(&owners) {
        shared_functions(functions, other, tell);
        shared_ranges(functions, other, tell);
    }
}

/// Returns whether a domain has a bridge below which the tree lists no function.
pub(super) fn has_open_bridge(partition: &Partition) -> bool {
    let is_open = |functions: Functions<'_>| {
        functions.buses().any(|buses| {
            let mut all = functions.all.iter();
            !all.any(|one| buses.contains(&one.function.bus))
        })
    };
    partition
        .domains
        .iter()
        .map(Functions::of_domain)
        .any(is_open)
}

fn sleep_disks(domain: &DomainNode, facts: &Facts<'_>, tell: &mut dyn FnMut(Unfenced)) {
    for function in facts.sleep_disks.unwrap_or_default() {
        if Functions::of_domain(domain).has(*function) {
            tell(Unfenced::SleepDisk {
                domain: domain.name,
                function: *function,
            });
        }
    }
}

fn virtio(domain: &DomainNode, scene: &Scene<'_>, tell: &mut dyn FnMut(Unfenced)) {
    for base in &scene.facts.machine.virtio {
        let registers = PhysRange::new(*base, PAGE_BYTES);
        if scene.kept.first_access(domain, registers).is_some() {
            tell(Unfenced::VirtioMmio {
                domain: domain.name,
                base: *base,
            });
        }
    }
}

/// Names devices of domains that are not known to be harmless to others.
fn unknown(scene: &Scene<'_>, tell: &mut dyn FnMut(Unfenced)) {
    let Some(tree) = &scene.facts.tree else {
        return;
    };
    // A walk of the tree takes long, so there is one for all domains.
    unknown_devices(tree, &mut |node, range| {
        for domain in &scene.partition.domains {
            if let Some(start) = scene.kept.first_access(domain, range) {
                tell(Unfenced::UnknownDevice {
                    domain: domain.name,
                    node,
                    start,
                });
            }
        }
    });
}

fn host(functions: &Functions<'_>, facts: &Facts<'_>, tell: &mut dyn FnMut(Unfenced)) {
    match facts.machine.pci.len() {
        _ if functions.all.is_empty() => {}
        0 => tell(Unfenced::NoHost(functions.owner)),
        1 => {}
        _ => tell(Unfenced::SeveralHosts(functions.owner)),
    }
}

/// Names each function without an IOMMU, and each one that its IOMMU knows by another number: the
/// firmware would open a context that is not the function's. Machine mode needs no fence from its
/// own function, so that one may be on a machine without IOMMUs.
fn iommu(functions: &Functions<'_>, facts: &Facts<'_>, tell: &mut dyn FnMut(Unfenced)) {
    let has_iommu = !facts.machine.iommus.is_empty();
    if !has_iommu && functions.owner == Owner::MachineMode {
        return;
    }
    let wiring = facts.wiring.filter(|_| has_iommu);
    for one in functions.all {
        let routing_id = u32::from(one.function.routing_id());
        match wiring.and_then(|wiring| wiring.device_id(one.function)) {
            None => tell(Unfenced::NoIommu {
                owner: functions.owner,
                function: one.function,
            }),
            Some(device) if device != routing_id => tell(Unfenced::DeviceId {
                owner: functions.owner,
                function: one.function,
                device,
                routing_id,
            }),
            _ => {}
        }
    }
}

/// Names the first bus in each host bridge's configuration space that the domain may access, but
/// that is below none of its bridges. The first bus is machine mode's, and closed.
fn configuration(domain: &DomainNode, scene: &Scene<'_>, tell: &mut dyn FnMut(Unfenced)) {
    let functions = Functions::of_domain(domain);
    for host in &scene.facts.machine.pci {
        let (first_bus, last_bus) = (host.bridge.first_bus, host.bridge.last_bus);
        // A tree may name them in the wrong order; there is no bus then.
        let Some(last) = last_bus.checked_sub(first_bus) else {
            continue;
        };
        let ecam = PhysRange::new(host.ecam.start, BUS_BYTES * (u64::from(last) + 1));
        // The buses whose configuration space lies in the domain's regions.
        let regions = domain.regions.iter().map(MemoryRegion::range);
        let reached = regions.filter(|region| region.overlaps(&ecam));
        let reached = reached.flat_map(|region| {
            let first = region.start.saturating_sub(ecam.start) / BUS_BYTES;
            let last = (region.end.min(ecam.end) - 1 - ecam.start) / BUS_BYTES;
            first.max(1)..=last
        });
        let foreign = reached.filter_map(|number| {
            let bus = first_bus.checked_add(u8::try_from(number).ok()?)?;
            let space = PhysRange::new(ecam.start + number * BUS_BYTES, BUS_BYTES);
            let is_open = || scene.kept.first_access(domain, space).is_some();
            (!functions.has_bus(bus) && is_open()).then_some(bus)
        });
        if let Some(bus) = foreign.min() {
            tell(Unfenced::Configuration {
                domain: domain.name,
                bus,
            });
        }
    }
}

/// Names a range that its register cannot hold, or that the CPU cannot reach.
fn addresses(
    functions: &Functions<'_>,
    range: &FunctionRange,
    facts: &Facts<'_>,
    tell: &mut dyn FnMut(Unfenced),
) {
    let is_bridge =
        (functions.all.iter()).any(|one| one.function == range.function && one.buses.is_some());
    let PhysRange { start, end } = range.range;
    if !can_hold(is_bridge, range) {
        tell(Unfenced::Unholdable {
            owner: functions.owner,
            function: range.function,
            register: range.register,
            start,
            end,
        });
    } else if in_cpu(range, facts).is_none() {
        tell(Unfenced::Unreachable {
            owner: functions.owner,
            function: range.function,
            start,
        });
    }
}

/// Returns whether a register can hold the range.
///
/// - A BAR's is a naturally aligned power of two (PCI Local Bus Specification 3.0, 6.2.5).
/// - A bridge's window is a multiple of 1 MiB, or of 4 KiB in I/O space (PCI-to-PCI Bridge
///   Architecture Specification 1.2, 3.2.5).
fn can_hold(is_bridge: bool, range: &FunctionRange) -> bool {
    let (start, length) = (range.range.start, range.range.length());
    let is_aligned = match (is_bridge, range.register) {
        (true, 0x1c) => (start | length).is_multiple_of(0x1000),
        (true, 0x20 | 0x24) => (start | length).is_multiple_of(0x10_0000),
        // The low bits of a BAR tell its kind; those of an expansion ROM's are fixed.
        (_, register) => {
            let least = match (register, range.kind) {
                (0x30 | 0x38, _) => 0x800,
                (_, AddressKind::Io) => 4,
                _ => 16,
            };
            length.is_power_of_two() && length >= least && start.is_multiple_of(length)
        }
    };
    let is_low = range.kind == AddressKind::Memory64 || range.range.end <= 1 << u32::BITS;
    is_aligned && is_low
}

/// The range's addresses for the CPU, if the host bridge has a window for them.
fn in_cpu(range: &FunctionRange, facts: &Facts<'_>) -> Option<PhysRange> {
    if range.kind == AddressKind::Io {
        return facts.wiring?.ports(range.range);
    }
    let length = range.range.length();
    let bridge = &facts.machine.pci.first()?.bridge;
    let start = bridge.cpu_address(range.range.start, length)?;
    Some(PhysRange::new(start, length))
}

fn shared_functions(one: &Functions<'_>, other: &Functions<'_>, tell: &mut dyn FnMut(Unfenced)) {
    let theirs = other.all.iter().filter(|their| one.has(their.function));
    // An entry of both was found already.
    let ours = one.all.iter().filter(|our| other.has(our.function));
    let ours = ours.filter(|our| !other.is_listed(our.function));
    for shared in theirs.chain(ours) {
        tell(Unfenced::SharedFunction {
            function: shared.function,
            owner: one.owner,
            other: other.owner,
        });
    }
    let shared = one.buses().flatten().find(|bus| other.has_bus(*bus));
    if let Some(bus) = shared {
        tell(Unfenced::SharedBus {
            bus,
            owner: one.owner,
            other: other.owner,
        });
    }
}

fn shared_ranges(one: &Functions<'_>, other: &Functions<'_>, tell: &mut dyn FnMut(Unfenced)) {
    for our in one.ranges {
        for their in other.ranges {
            let is_io = |range: &FunctionRange| range.kind == AddressKind::Io;
            if is_io(our) == is_io(their) && our.range.overlaps(&their.range) {
                tell(Unfenced::SharedRange {
                    function: our.function,
                    other: their.function,
                    start: our.range.start.max(their.range.start),
                });
            }
        }
    }
}

/// Names addresses that functions of another owner decode, and that the domain may access.
fn foreign_ranges(
    domain: &DomainNode,
    functions: &Functions<'_>,
    scene: &Scene<'_>,
    tell: &mut dyn FnMut(Unfenced),
) {
    if functions.owner == Owner::Domain(domain.name) {
        return;
    }
    for range in functions.ranges {
        let addresses = in_cpu(range, scene.facts);
        let start = addresses.and_then(|all| scene.kept.first_access(domain, all));
        if let Some(start) = start {
            tell(Unfenced::ForeignRange {
                domain: domain.name,
                owner: functions.owner,
                function: range.function,
                start,
            });
        }
    }
}
