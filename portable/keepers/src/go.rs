//! From a power-on to devices as their drivers left them.

use poorwill_image::{StateSection, StateSections};
use poorwill_medium::pci::{self, Function};

use crate::device::{Device, kind_and_host};
use crate::kind::Kind;
use crate::{KeeperError, Machine};

/// What a section of the record is of.
enum Part {
    Config,
    Table,
    Device(Kind),
}

/// The sections, in the order in which they are to be put back, each with its device.
///
/// # Errors
///
/// One is nobody's.
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

/// Checks that what was kept can be put back, as far as that can be told of devices that
/// have no addresses yet. Nothing is touched.
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
                // Behind a bridge none answers yet.
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

/// Puts all of it back, but for the interrupts of devices. Done twice, it is done once.
///
/// # Errors
///
/// [`KeeperError`]: then [`give_up`] is to follow.
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

/// Has all devices interrupt as they did, and those whose driver is to look after them do so
/// at once. All harts are as they were.
///
/// # Errors
///
/// [`KeeperError`]: no driver would hear of its device.
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

/// Has all devices reach nothing, as after a power-on.
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
