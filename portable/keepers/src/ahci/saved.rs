use poorwill_image::StateSection;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::hba::MAX_PORTS;
use crate::KeeperError;

pub(super) const VERSION: u16 = 1;

/// What is kept of a port; and of the HBA, the same in all of them.
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
    /// The signature of its device, or 0.
    pub(super) signature: u32,
    /// Queued commands that were not done.
    pub(super) active: u32,
    /// Commands that are to be issued again.
    pub(super) issued: u32,
    /// Features of the device that are on.
    pub(super) features: u32,
    /// 0.
    pub(super) reserved: u32,
    /// A checksum of what the device says that it is.
    pub(super) identity: u64,
}

impl SavedPort {
    /// The port as a bit.
    pub(super) fn bit(&self) -> u32 {
        1 << (self.number % 32)
    }

    /// It has a device.
    pub(super) fn has_device(&self) -> bool {
        self.signature != 0
    }
}

/// What a section has of all ports, in their order.
///
/// # Errors
///
/// [`KeeperError::Record`].
pub(super) fn ports<'a>(section: &StateSection<'a>) -> Result<&'a [SavedPort], KeeperError> {
    let ports = section.read::<[SavedPort]>(VERSION)?;
    let is_known = |port: &SavedPort| (port.number as usize) < MAX_PORTS;
    let is_ordered = ports.is_sorted_by(|one, next| one.number < next.number);
    if !ports.iter().all(is_known) || !is_ordered {
        return Err(section.refuse().into());
    }
    Ok(ports)
}

/// The ports for which it holds.
pub(super) fn set_of(ports: &[SavedPort], condition: impl Fn(&SavedPort) -> bool) -> u32 {
    let chosen = ports.iter().filter(|port| condition(port));
    chosen.fold(0, |set, port| set | port.bit())
}

/// All bits, or none.
pub(super) fn mask(is_set: bool) -> u32 {
    if is_set { u32::MAX } else { 0 }
}
