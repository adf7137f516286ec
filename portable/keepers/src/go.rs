//! Restores the devices after a power-on.

use poorwill_image::{StateSection, StateSections};
use poorwill_pci::{self as pci, Function};

use crate::device::{Device, kind_and_host};
use crate::kind::Kind;
use crate::{KeeperError, Machine};

enum Part {
    Config,
    Table,
    Device(Kind),
}

/// The sections in the order of the restore, each with its device.
///
/// # Errors
///
/// A section is not a keeper's.
fn parts<'s, 'm, M: Machine>(
    machine: &'m M,
    sections: &'s StateSections<'s>,
) -> impl Iterator<Item = Result<(Device<'m, M>, Part, StateSection<'s>), KeeperError>> {
    sections.left().iter().map(move |section| {
        let (tag, host) = kind_and_host(section.owner);
        let part = match &tag {
            crate::pci::CONFIG => Some(Part::Config),
            crate::pci::TABLE => Some(Part::Table),
            tag => Kind::tagged(tag).map(Part::Device),
        };
        let part = part.filter(|_| host < machine.hosts());
        let device = Device {
            machine,
            host,
            function: Function::from_routing_id(section.number),
        };
        Ok((device, part.ok_or_else(|| section.refuse())?, *section))
    })
}

/// Checks that the devices can be restored, as far as that is possible without their addresses.
/// Changes nothing.
///
/// # Errors
///
/// [`KeeperError`].
pub fn check<M: Machine>(machine: &M, sections: &StateSections<'_>) -> Result<(), KeeperError> {
    for part in parts(machine, sections) {
        let (device, part, section) = part?;
        match part {
            Part::Config => {
                let registers = crate::pci::registers(&section)?;
                let first = machine.host(device.host).first_bus;
                let config = machine.config(device.host);
                // Devices behind a bridge do not answer yet.
                if device.function.bus == first
                    && !pci::is_same(&config, device.function, registers)
                {
                    return Err(KeeperError::Changed(device.function));
                }
            }
            Part::Table => {
                crate::pci::table(&section)?;
            }
            Part::Device(kind) => kind.check(&section)?,
        }
    }
    Ok(())
}

/// Restores everything except the devices' interrupts. It may be repeated.
///
/// # Errors
///
/// [`KeeperError`]: call [`give_up`] then.
pub fn put_back<M: Machine>(machine: &M, sections: &StateSections<'_>) -> Result<(), KeeperError> {
    for part in parts(machine, sections) {
        let (device, part, section) = part?;
        match part {
            Part::Config => crate::pci::put_back(&device, &section)?,
            Part::Table => crate::pci::put_back_table(&device, &section)?,
            Part::Device(kind) => kind.put_back(&device, &section)?,
        }
    }
    Ok(())
}

/// Enables the interrupts of all devices, and raises those that their drivers need. All
/// other state, including the harts', must be restored first.
///
/// # Errors
///
/// [`KeeperError`]: a driver would not notice the completions of its device.
pub fn announce<M: Machine>(machine: &M, sections: &StateSections<'_>) -> Result<(), KeeperError> {
    for part in parts(machine, sections) {
        if let (device, Part::Config, section) = part? {
            crate::pci::announce(&device, crate::pci::registers(&section)?);
        }
    }
    for part in parts(machine, sections) {
        if let (device, Part::Device(kind), section) = part? {
            kind.announce(&device, &section)?;
        }
    }
    Ok(())
}

/// Switches off all devices: their decoding, and their access to memory.
pub fn give_up<M: Machine>(machine: &M) {
    for host in 0..machine.hosts() {
        let config = machine.config(host);
        if let Ok(functions) = pci::list(&config, machine.host(host)) {
            for listed in functions.iter().rev() {
                pci::switch_off(&config, listed.function);
            }
        }
    }
}
