use poorwill_clock::Clock;

use super::journal::Journal;
use super::power::wake;
use super::register::{BUSES, HEADER, ID, Kept, PCI_EXPRESS, is_bridge};
use super::{ConfigSpace, Function, HostBridge, PciError, Step, capability};

#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    number: u8,
    /// The highest bus number below this bus.
    last: u8,
    /// The number of possible devices: one at the end of a PCI Express link.
    devices: u8,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    pub(super) function: Function,
    pub(super) header: u32,
}

impl Bus {
    /// The bus directly below the host bridge.
    pub(super) fn root(host: &HostBridge) -> Self {
        Bus {
            number: host.first_bus,
            last: host.last_bus,
            devices: 32,
        }
    }

    pub(super) fn at(&self, step: Step) -> Function {
        Function {
            bus: self.number,
            device: step.device,
            function: step.function,
        }
    }

    pub(super) fn functions<C: ConfigSpace>(self, config: &C) -> impl Iterator<Item = Present> {
        (0..self.devices).flat_map(move |device| {
            let first = self.at(Step {
                device,
                function: 0,
            });
            let functions = match look(config, first) {
                None => 0,
                Some(header) if header & 1 << 23 != 0 => 8,
                Some(_) => 1,
            };
            (0..functions).filter_map(move |function| {
                let function = Function { function, ..first };
                look(config, function).map(|header| Present { function, header })
            })
        })
    }

    /// The bus below a bridge. Brings the bridge to D0 and assigns bus numbers if needed.
    pub(super) fn behind(
        &self,
        config: &impl ConfigSpace,
        clock: &impl Clock,
        bridge: Function,
        journal: &mut Journal,
    ) -> Result<Bus, PciError> {
        wake(config, clock, bridge, journal)?;
        let (secondary, subordinate) = match self.numbers(config, bridge) {
            Some(numbers) => numbers,
            None => self.number_behind(config, bridge, journal)?,
        };
        Ok(Bus {
            number: secondary,
            last: subordinate,
            devices: if ends_a_link(config, bridge)? { 1 } else { 32 },
        })
    }

    /// The bus below a bridge that is in D0 and has its bus numbers.
    pub(super) fn behind_numbered(
        &self,
        config: &impl ConfigSpace,
        bridge: Function,
    ) -> Option<Bus> {
        let header = look(config, bridge).filter(|header| is_bridge(*header));
        let (number, last) = header.and(self.numbers(config, bridge))?;
        let is_link = ends_a_link(config, bridge).ok()?;
        Some(Bus {
            number,
            last,
            devices: if is_link { 1 } else { 32 },
        })
    }

    /// The bus below a bridge that has these bus numbers, first and last.
    pub(super) fn numbered(
        config: &impl ConfigSpace,
        bridge: Function,
        (number, last): (u8, u8),
    ) -> Result<Bus, PciError> {
        let devices = if ends_a_link(config, bridge)? { 1 } else { 32 };
        Ok(Bus {
            number,
            last,
            devices,
        })
    }

    /// The bus numbers of a bridge, if they are valid.
    fn numbers(&self, config: &impl ConfigSpace, bridge: Function) -> Option<(u8, u8)> {
        let [primary, secondary, subordinate, _] = config.read32(bridge, BUSES).to_le_bytes();
        let good = primary == self.number
            && self.number < secondary
            && secondary <= subordinate
            && subordinate <= self.last;
        good.then_some((secondary, subordinate))
    }

    /// Assigns a bridge the longest range of bus numbers that no other bridge on this bus
    /// uses.
    fn number_behind(
        &self,
        config: &impl ConfigSpace,
        bridge: Function,
        journal: &mut Journal,
    ) -> Result<(u8, u8), PciError> {
        let mut taken = [false; 256];
        let others = self
            .functions(config)
            .filter(|other| other.function != bridge && is_bridge(other.header));
        for other in others {
            let [_, secondary, subordinate, _] = config.read32(other.function, BUSES).to_le_bytes();
            if secondary > self.number && secondary <= subordinate {
                taken[usize::from(secondary)..=usize::from(subordinate)].fill(true);
            }
        }
        let mut best: Option<(u8, u8)> = None;
        let mut first = None;
        for number in self.number..=self.last {
            if number == self.number || taken[usize::from(number)] {
                first = None;
                continue;
            }
            let first = *first.get_or_insert(number);
            if best.is_none_or(|(start, end)| number - first > end - start) {
                best = Some((first, number));
            }
        }
        let (secondary, subordinate) = best.ok_or(PciError::NoBus(bridge))?;
        let numbers = u32::from_le_bytes([self.number, secondary, subordinate, 0]);
        journal.force(config, bridge, (BUSES, Kept::ALL), 0x00ff_ffff, numbers)?;
        Ok((secondary, subordinate))
    }
}

/// The header dword of a function, if it exists.
pub(super) fn look(config: &impl ConfigSpace, function: Function) -> Option<u32> {
    // No vendor is 0xffff; faulty bridges return 0 for absent functions.
    match config.read32(function, ID) & 0xffff {
        0 | 0xffff => None,
        _ => Some(config.read32(function, HEADER)),
    }
}

/// Types of PCI Express ports (7.5.3.2).
const ROOT_PORT: u32 = 4;
const DOWNSTREAM_PORT: u32 = 6;

/// Whether the bus below a bridge is a PCI Express link, with one device. Some hosts
/// would show that device again under each number.
fn ends_a_link(config: &impl ConfigSpace, bridge: Function) -> Result<bool, PciError> {
    let port = port_type(config, bridge)?;
    Ok(matches!(port, Some(ROOT_PORT | DOWNSTREAM_PORT)))
}

/// Whether a bridge is a root port.
pub(super) fn is_root_port(config: &impl ConfigSpace, bridge: Function) -> Result<bool, PciError> {
    Ok(port_type(config, bridge)? == Some(ROOT_PORT))
}

fn port_type(config: &impl ConfigSpace, bridge: Function) -> Result<Option<u32>, PciError> {
    let express = capability::find(config, bridge, PCI_EXPRESS)?;
    Ok(express.map(|express| config.read32(bridge, express) >> 20 & 0xf))
}
