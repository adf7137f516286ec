//! Mediated registers: the OS's accesses fault, and machine mode makes the permitted ones for it.

use arrayvec::ArrayVec;
use poorwill_devicetree::{MAX_FW_CFGS, MAX_MACHINE_ONLY, MAX_PLICS};
use poorwill_memory::{PAGE_BYTES, PhysRange};

/// Maximum number of devices with mediated registers.
pub const MAX_MEDIATED: usize = MAX_FW_CFGS + MAX_PLICS + 2;

/// The OS's access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAccess {
    /// A read.
    Load,
    /// A write of this value.
    Store(u64),
}

/// The mediator's decision on an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The device serves the access unchanged.
    Pass,
    /// The device gets this value instead. Only for stores.
    Store(u64),
    /// The mediator has served the access. A load reads 0.
    Done,
    /// The access faults, as without a device.
    Fault,
}

/// The memory of the OS that makes an access, by physical address.
pub trait CallerMemory {
    /// Returns whether all of the bytes are the OS's memory.
    fn owns(&self, address: u64, length: u64) -> bool;

    /// Copies 16 bytes; `None` if they are not the OS's memory.
    fn read(&self, address: u64) -> Option<[u8; 16]>;

    /// Writes a word. Does nothing outside the OS's memory.
    fn write(&self, address: u64, word: [u8; 4]);
}

/// A device with mediated registers.
pub trait Mediator: Send {
    /// Decides on an access of `bytes` (1, 2, 4 or 8) at `offset`, a multiple of `bytes`.
    fn rule(
        &mut self,
        offset: u64,
        bytes: u64,
        access: RegisterAccess,
        memory: &dyn CallerMemory,
    ) -> Ruling;
}

/// The mediated registers, and the mediator of each.
#[derive(Debug)]
pub struct MediatedRegisters<M> {
    devices: ArrayVec<(PhysRange, M), MAX_MEDIATED>,
    closed: ArrayVec<PhysRange, MAX_MACHINE_ONLY>,
}

impl<M: Mediator> MediatedRegisters<M> {
    /// The registers of `devices`. Accesses to ranges of `closed` on the same pages fault.
    pub fn new(
        devices: impl IntoIterator<Item = (PhysRange, M)>,
        closed: &ArrayVec<PhysRange, MAX_MACHINE_ONLY>,
    ) -> Self {
        MediatedRegisters {
            devices: devices.into_iter().collect(),
            closed: closed.clone(),
        }
    }

    /// Returns whether there are no mediated registers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// All devices and their registers' addresses.
    pub fn devices_mut(&mut self) -> impl Iterator<Item = (PhysRange, &mut M)> {
        let devices = self.devices.iter_mut();
        devices.map(|(registers, device)| (*registers, device))
    }

    /// Decides on an access of `bytes` (1, 2, 4 or 8) at a physical address, a multiple of `bytes`.
    /// PMP closes whole pages to the OS. So other addresses on a device's pages pass, unless they
    /// are machine mode's own.
    pub fn rule(
        &mut self,
        address: u64,
        bytes: u64,
        access: RegisterAccess,
        memory: &dyn CallerMemory,
    ) -> Ruling {
        // An aligned access does not wrap.
        let accessed = PhysRange {
            start: address,
            end: address.saturating_add(bytes),
        };
        let shares_page =
            |(registers, _): &&mut (PhysRange, M)| pages(*registers).overlaps(&accessed);
        let is_closed = self.closed.iter().any(|range| range.overlaps(&accessed));
        let device = self.devices.iter_mut().find(shares_page);
        match device.filter(|_| !is_closed) {
            None => Ruling::Fault,
            Some((registers, _)) if !registers.overlaps(&accessed) => Ruling::Pass,
            Some((registers, mediator)) => match address.checked_sub(registers.start) {
                Some(offset) => mediator.rule(offset, bytes, access, memory),
                None => Ruling::Fault,
            },
        }
    }
}

fn pages(range: PhysRange) -> PhysRange {
    PhysRange {
        start: range.start & !(PAGE_BYTES - 1),
        end: range.end.next_multiple_of(PAGE_BYTES),
    }
}

#[cfg(test)]
pub(crate) struct NoMemory;

#[cfg(test)]
impl CallerMemory for NoMemory {
    fn owns(&self, _: u64, _: u64) -> bool {
        false
    }

    fn read(&self, _: u64) -> Option<[u8; 16]> {
        None
    }

    fn write(&self, _: u64, _: [u8; 4]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves even offsets.
    #[derive(Debug)]
    struct Even;

    impl Mediator for Even {
        fn rule(&mut self, offset: u64, _: u64, _: RegisterAccess, _: &dyn CallerMemory) -> Ruling {
            if offset.is_multiple_of(2) {
                Ruling::Done
            } else {
                Ruling::Fault
            }
        }
    }

    #[test]
    fn whole_pages_are_watched_but_for_what_is_machine_modes() {
        let devices = [
            (PhysRange::new(0x1100, 0x80), Even),
            (PhysRange::new(0x5ff0, 0x20), Even),
        ];
        let closed = [PhysRange::new(0x1800, 4)].into_iter().collect();
        let mut registers = MediatedRegisters::new(devices, &closed);
        let mut at =
            |address, bytes| registers.rule(address, bytes, RegisterAccess::Load, &NoMemory);
        for (address, bytes, expected) in [
            (0x1100, 4, Ruling::Done),
            (0x1101, 1, Ruling::Fault),
            (0x117e, 2, Ruling::Done),
            (0x1180, 4, Ruling::Pass),
            (0x10f8, 8, Ruling::Pass),
            (0x1800, 4, Ruling::Fault),
            (0x1803, 1, Ruling::Fault),
            (0x1804, 4, Ruling::Pass),
            (0x1ff8, 8, Ruling::Pass),
            (0x2000, 8, Ruling::Fault),
            (0xff8, 8, Ruling::Fault),
            (0x5000, 8, Ruling::Pass),
            (0x6008, 8, Ruling::Done),
            (0x6ff8, 8, Ruling::Pass),
            (0x7000, 1, Ruling::Fault),
            (u64::MAX - 7, 8, Ruling::Fault),
            (u64::MAX, 1, Ruling::Fault),
        ] {
            assert_eq!(at(address, bytes), expected, "{bytes} at {address:#x}");
        }
    }

    #[test]
    fn an_access_from_before_a_device_into_it_faults() {
        let none = ArrayVec::new();
        let mut registers = MediatedRegisters::new([(PhysRange::new(0x1104, 4), Even)], &none);
        let ruling = registers.rule(0x1100, 8, RegisterAccess::Load, &NoMemory);
        assert_eq!(ruling, Ruling::Fault);
        let empty = MediatedRegisters::<Even>::new([], &none);
        assert!(empty.is_empty());
    }
}
