//! INTx: the wired interrupts of PCI functions.

use arrayvec::ArrayVec;
use poorwill_devicetree::{DomainNode, MAX_DOMAIN_FUNCTIONS, MAX_DOMAINS, Partition};
use poorwill_pci::Function;
use poorwill_pci::placement::PlacedFunction;

use super::scene::Facts;
use super::unfenced::Unfenced;

/// Pins of a function, INTA to INTD.
const PINS: u8 = 4;

/// Maximum number of bridges above a function.
const MAX_BRIDGES: u32 = 8;

/// A wired interrupt where it leaves the first bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntxLine {
    /// The device on the first bus.
    pub device: u8,
    /// INTA (1) to INTD (4).
    pub pin: u8,
}

/// The line that pin INTA (1) to INTD (4) of a domain's function raises. Each bridge turns the pin
/// by the number of the device below it (PCI-to-PCI Bridge Architecture Specification 1.2, 9.1).
/// `None`: the tree does not list each bridge above the function.
#[must_use]
pub fn intx_line(
    domain: &DomainNode,
    first_bus: u8,
    function: Function,
    pin: u8,
) -> Option<IntxLine> {
    let mut at = IntxLine {
        device: function.device,
        pin,
    };
    let mut bus = function.bus;
    for _ in 0..=MAX_BRIDGES {
        if bus == first_bus {
            return Some(at);
        }
        let mut bridges = domain.functions.iter();
        let bridge = bridges.find(|one| one.buses.is_some_and(|(first, _)| first == bus))?;
        at = IntxLine {
            device: bridge.function.device,
            pin: (at.pin.wrapping_sub(1).wrapping_add(at.device)) % PINS + 1,
        };
        bus = bridge.function.bus;
    }
    None
}

/// Names each pair of functions of two domains that raise one source. Only the bus shows a
/// function's pin: it counts as INTA.
pub(super) fn shared_sources(
    partition: &Partition,
    facts: &Facts<'_>,
    tell: &mut dyn FnMut(Unfenced),
) {
    let (Some(wiring), Some(host)) = (facts.wiring, facts.machine.pci.first()) else {
        return;
    };
    // A bridge's own interrupts are off: its configuration space is machine mode's.
    let source_of = |domain: &DomainNode, one: &PlacedFunction| {
        if one.buses.is_some() {
            return None;
        }
        let line = intx_line(domain, host.bridge.first_bus, one.function, 1)?;
        wiring.source(line.device, line.pin)
    };
    let all = partition.domains.iter().flat_map(|domain| {
        let functions = domain.functions.iter();
        functions.filter_map(move |one| Some((domain, one.function, source_of(domain, one)?)))
    });
    let all: ArrayVec<_, { MAX_DOMAINS * MAX_DOMAIN_FUNCTIONS }> = all.collect();
    for (place, (domain, function, source)) in all.iter().enumerate() {
        let others = all.iter().skip(place + 1);
        for (other, other_function, _) in
            others.filter(|(other, _, their)| their == source && !core::ptr::eq(*domain, *other))
        {
            tell(Unfenced::SharedIntx {
                domain: domain.name,
                function: *function,
                other: other.name,
                other_function: *other_function,
                source_number: source.source,
            });
        }
    }
}
