//! The ranges that machine mode keeps from each domain.
//!
//! OpenSBI closes its own memory and its devices in each domain, so people write regions that cover
//! all addresses. The PMP plan does the same: a kept range is closed, and no reason to refuse it.

use arrayvec::ArrayVec;
use poorwill_devicetree::{DomainNode, Hart, MAX_HARTS, Machine, Partition, Span};
use poorwill_memory::{PAGE_BYTES, PhysRange};

use crate::pmp::{TooManyRanges, join};

/// Bytes of configuration space of a PCI bus (PCI Express Base Specification, 7.2.2).
pub(crate) const BUS_BYTES: u64 = 1 << 20;

/// Maximum number of kept ranges, before neighbours are joined.
const MAX_KEPT: usize = 192;

/// Ascending ranges that neither overlap nor touch.
type Ranges = ArrayVec<PhysRange, MAX_KEPT>;

/// The ranges that machine mode keeps on a machine with domains.
#[derive(Clone, Debug)]
pub struct KeptRanges {
    /// Closed to each domain.
    always: Ranges,
    /// These, and devices whose DMA or whose configuration reaches other domains. A domain has such
    /// a device only by a region of registers (`mmio`), which the check judges. A region of memory
    /// that happens to cover it does not give it.
    beside_memory: Ranges,
}

impl KeptRanges {
    /// The kept ranges of a machine with this partition. `firmware` is the firmware's memory.
    ///
    /// A [lone domain](Partition::lone) has all devices that an OS has on a machine without domains.
    ///
    /// # Errors
    ///
    /// [`TooManyRanges`].
    pub fn new(
        partition: &Partition,
        machine: &Machine,
        firmware: &[PhysRange],
    ) -> Result<Self, TooManyRanges> {
        let mut always = Ranges::new();
        let registers = machine.machine_only.iter().chain(&machine.fw_cfg);
        add(&mut always, firmware.iter().chain(registers).copied())?;
        if partition.lone().is_some() {
            join(&mut always);
            let beside_memory = always.clone();
            return Ok(KeptRanges {
                always,
                beside_memory,
            });
        }
        add(&mut always, devices_of(machine))?;
        join(&mut always);
        let mut kept = KeptRanges {
            beside_memory: always.clone(),
            always,
        };
        // The interrupt files of harts whose domain takes no interrupts, or that have no domain.
        let idle = machine.harts.iter().filter(|hart| {
            let domain = partition.domain_of(hart.id);
            !domain.is_some_and(|domain| kept.takes_interrupts(domain, machine))
        });
        let idle: ArrayVec<PhysRange, MAX_HARTS> = idle.filter_map(files).collect();
        add(&mut kept.always, idle.into_iter())?;
        join(&mut kept.always);
        kept.beside_memory.clone_from(&kept.always);
        add(&mut kept.beside_memory, unfenced_devices(machine))?;
        join(&mut kept.beside_memory);
        Ok(kept)
    }

    /// Ranges that are closed to each domain, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[PhysRange] {
        &self.always
    }

    /// All addresses that a domain may access, ascending: those of its regions without the kept
    /// ones.
    pub fn spans(&self, node: &DomainNode) -> impl Iterator<Item = Span> {
        (node.spans().into_iter()).flat_map(move |span| self.open_parts(span))
    }

    /// The parts of a span that no kept range covers.
    pub(crate) fn open_parts(&self, span: Span) -> impl Iterator<Item = Span> {
        let kept = match span.is_mmio {
            true => &self.always,
            false => &self.beside_memory,
        };
        let ends = kept.iter().map(|range| range.end);
        let starts = kept.iter().map(|range| range.start);
        let gaps = (core::iter::once(0).chain(ends)).zip(starts.chain([u64::MAX]));
        gaps.filter_map(move |(start, end)| {
            let range = PhysRange {
                start: start.max(span.range.start),
                end: end.min(span.range.end),
            };
            (range.start < range.end).then_some(Span { range, ..span })
        })
    }

    /// The first address in a range that the domain may access.
    #[must_use]
    pub fn first_access(&self, node: &DomainNode, range: PhysRange) -> Option<u64> {
        // Most ranges are in no region, and spans take time.
        let mut regions = node.regions.iter();
        regions.find(|region| region.range().overlaps(&range))?;
        let there = self.spans(node).find(|span| span.range.overlaps(&range))?;
        Some(there.range.start.max(range.start))
    }

    /// Returns whether the domain has an interrupt controller, or its harts' interrupt files.
    ///
    /// The harts of a domain that has neither take no external interrupt: it stays in machine mode,
    /// where it is off. So another domain's controller may name these harts without effect. A hart
    /// with files for guests is an exception, as hypervisors take their interrupts by another way.
    #[must_use]
    pub fn takes_interrupts(&self, node: &DomainNode, machine: &Machine) -> bool {
        let plics = machine.interrupts.plics.iter().map(|plic| plic.registers());
        let aplics = machine.interrupts.os_aplics.iter();
        let controllers = plics.chain(aplics.map(|aplic| aplic.registers()));
        let harts = (machine.harts.iter()).filter(|hart| node.harts.contains(&hart.id));
        let has_guests = |hart: &Hart| hart.os_imsic.is_some_and(|file| file.guest_bits > 0);
        let own = harts.clone().filter_map(files);
        let mut reached = controllers.chain(own);
        !node.functions.is_empty()
            || harts.clone().any(has_guests)
            || reached.any(|range| self.first_access(node, range).is_some())
    }
}

/// The S-level interrupt files of a hart, and of its guests.
fn files(hart: &Hart) -> Option<PhysRange> {
    let file = hart.os_imsic?;
    Some(PhysRange::new(
        file.address,
        PAGE_BYTES << file.guest_bits.min(7),
    ))
}

/// The devices of machine mode.
fn devices_of(machine: &Machine) -> impl Iterator<Item = PhysRange> {
    let register = |address: &u64| PhysRange::new(*address, 1);
    let buses = (machine.pci.iter()).map(|host| PhysRange::new(host.ecam.start, BUS_BYTES));
    let switches = [machine.switches.power_off, machine.switches.reset]
        .into_iter()
        .flatten();
    let flash = machine.flash.iter().flat_map(|flash| &flash.banks).copied();
    (machine.iommus.iter().chain(&machine.rtc).map(register))
        .chain(switches.map(move |switch| register(&switch.address())))
        .chain(buses)
        .chain(flash)
}

/// Devices whose DMA no IOMMU checks, and the configuration space of all buses.
fn unfenced_devices(machine: &Machine) -> impl Iterator<Item = PhysRange> {
    let virtio = (machine.virtio.iter()).map(|base| PhysRange::new(*base, PAGE_BYTES));
    virtio.chain(machine.pci.iter().map(|host| host.ecam))
}

/// Adds ranges in whole pages, as the PMP plan closes them.
fn add(all: &mut Ranges, ranges: impl Iterator<Item = PhysRange>) -> Result<(), TooManyRanges> {
    for range in ranges.filter(|range| range.length() > 0) {
        let start = range.start & !(PAGE_BYTES - 1);
        let end = range.end.checked_next_multiple_of(PAGE_BYTES);
        let end = end.unwrap_or(u64::MAX);
        let range = PhysRange { start, end };
        all.try_push(range).map_err(|_| TooManyRanges)?;
    }
    Ok(())
}
