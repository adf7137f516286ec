use poorwill_image::StateSection;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::hba::MAX_PORTS;
use crate::KeeperError;

pub(super) const VERSION: u16 = 1;

/// The saved registers of a port. Each port has a copy of the HBA's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct SavedPort {
    pub(super) capabilities: u32,
    pub(super) implemented: u32,
    pub(super) host_control: u32,
    pub(super) number: u32,
    pub(super) list: [u32; 2],
    pub(super) fis: [u32; 2],
    pub(super) interrupts: u32,
    pub(super) command: u32,
    pub(super) link_control: u32,
    /// The device's signature; 0: no device.
    pub(super) signature: u32,
    /// The queued commands that were not finished.
    pub(super) active: u32,
    /// The commands that Go issues again.
    pub(super) issued: u32,
    /// The enabled [`FEATURES`](super::command::FEATURES) of the device.
    pub(super) features: u32,
    pub(super) reserved: u32,
    /// The checksum of the device's identity.
    pub(super) identity: u64,
}

impl SavedPort {
    pub(super) fn bit(&self) -> u32 {
        1 << (self.number % 32)
    }

    pub(super) fn has_device(&self) -> bool {
        self.signature != 0
    }
}

/// All ports of a section, in the order of their numbers.
pub(super) fn ports<'a>(section: &StateSection<'a>) -> Result<&'a [SavedPort], KeeperError> {
    let ports = section.read::<[SavedPort]>(VERSION)?;
    let is_known = |port: &SavedPort| (port.number as usize) < MAX_PORTS;
    let is_ordered = ports.is_sorted_by(|one, next| one.number < next.number);
    if !ports.iter().all(is_known) || !is_ordered {
        return Err(section.refuse().into());
    }
    Ok(ports)
}

/// The set of ports for which `condition` holds.
pub(super) fn set_of(ports: &[SavedPort], condition: impl Fn(&SavedPort) -> bool) -> u32 {
    let chosen = ports.iter().filter(|port| condition(port));
    chosen.fold(0, |set, port| set | port.bit())
}

pub(super) fn mask(is_set: bool) -> u32 {
    if is_set { u32::MAX } else { 0 }
}
