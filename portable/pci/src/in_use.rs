//! Functions that a suspended OS has left in use: a power-off destroys their state, and their
//! drivers do not set them up again.
//!
//! Configuration space does not show whether a driver restores its device. So this is a list of
//! what Linux 6.12 and 7.2 were seen to do:
//!
//! - A function of a driver without a suspend loses its access to memory like most others. Only its
//!   identity tells, or the status or the messages of a virtio device.
//! - Some drivers leave their function's access to memory on, and set up the function again.

use core::fmt;

use super::bus::Present;
use super::capability::find;
use super::list::walk;
use super::register::{
    CLASS, COMMAND, COMMAND_IO, COMMAND_MASTER, COMMAND_MEMORY, ID, MSI_X, MSI_X_ENABLE,
    POWER_CONTROL, POWER_MANAGEMENT, POWER_STATE, is_bridge,
};
use super::virtio::{VirtioKind, status_address};
use super::{ConfigSpace, Function, HostBridge, PciError};

/// A function in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The address on the bus.
    pub function: Function,
    /// Vendor (bits 15:0) and device.
    pub id: u32,
}

impl fmt::Display for InUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InUse { function, id } = self;
        write!(out, "{function} ({:04x}:{:04x})", id & 0xffff, id >> 16)
    }
}

/// Calls `tell` for each function of the numbered buses that will lose its state with the power.
/// The OS must be suspended. A bridge that sleeps hides its functions: these sleep, too. `read8`
/// reads a byte of a function's memory at an address of the CPU; `None` if that faults.
///
/// # Errors
///
/// [`PciError::TooManyFunctions`]; [`PciError::CapabilityList`] of the first function with a
/// damaged one. All other functions are examined.
pub fn in_use(
    config: &impl ConfigSpace,
    host: &HostBridge,
    read8: impl Fn(u64) -> Option<u8>,
    mut tell: impl FnMut(InUse),
) -> Result<(), PciError> {
    let mut damaged = Ok(());
    let walked = walk(config, host, |present| {
        let facts = Facts::read(config, host, &read8, present).unwrap_or_else(|error| {
            damaged = damaged.and(Err(error));
            Facts::default()
        });
        if facts.loses_state() {
            let function = present.function;
            tell(InUse {
                function,
                id: facts.id,
            });
        }
        Ok(())
    });
    walked.and(damaged)
}

/// The facts by which a function is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Facts {
    id: u32,
    /// Class, subclass and interface, 24 bits.
    class: u32,
    command: u32,
    is_bridge: bool,
    virtio: Option<Virtio>,
}

/// The facts of a virtio device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Virtio {
    kind: VirtioKind,
    /// Its status; `None` if it cannot be read: the device sleeps, or has only the old interface.
    status: Option<u8>,
    /// It may send messages (MSI-X). A driver that suspends switches these off.
    has_messages: bool,
}

/// The class of bridges, host bridges included.
const CLASS_BRIDGE: u32 = 0x06;

/// Classes (with a number of bits to ignore) whose stock drivers set up a function again, although
/// they leave its access to memory on: NVMe, AHCI, UFS, SD host controllers, USB host controllers.
/// An IOMMU that is on refuses the sleep.
const SET_UP_AGAIN: [(u32, u32); 6] = [
    (0x01_08_02, 0),
    (0x01_06_01, 0),
    (0x01_09_01, 0),
    (0x08_05_00, 8),
    (0x0c_03_00, 8),
    (0x08_06_00, 8),
];

/// The vendor of `megaraid_sas`'s RAID controllers, which are set up again, too; and their class.
const MEGARAID: (u32, u32) = (0x1000, 0x01_04_00);

/// Functions of drivers without a suspend, by vendor and devices: `sym53c8xx`, `kvaser_pci`.
const WITHOUT_SUSPEND: [(u32, core::ops::RangeInclusive<u32>); 4] = [
    (0x1000, 0x0001..=0x0021),
    (0x1000, 0x008f..=0x008f),
    (0x10e8, 0x8406..=0x8406),
    (0x1a07, 0x0008..=0x0008),
];

/// A driver has begun to use the device, and has not reset it since (Virtio 1.2, 2.1). This is not
/// `DRIVER_OK`: QEMU clears that when Linux takes the function's access to memory.
const DRIVER: u8 = 1 << 1;

/// The driver has given up.
const FAILED: u8 = 1 << 7;

impl Virtio {
    fn read(
        config: &impl ConfigSpace,
        host: &HostBridge,
        read8: impl Fn(u64) -> Option<u8>,
        (function, kind): (Function, VirtioKind),
    ) -> Result<Self, PciError> {
        let power = find(config, function, POWER_MANAGEMENT)?;
        let power = power.map_or(0, |power| config.read32(function, power + POWER_CONTROL));
        let command = config.read32(function, COMMAND);
        let answers = command & COMMAND_MEMORY != 0 && power & POWER_STATE == 0;
        let address = match answers {
            true => status_address(config, function)?,
            false => None,
        };
        let address = address.and_then(|address| host.cpu_address(address, 1));
        // All ones: the device does not answer.
        let status = address.and_then(read8).filter(|status| *status != u8::MAX);
        let messages = find(config, function, MSI_X)?;
        let messages = messages.map_or(0, |messages| config.read32(function, messages));
        Ok(Virtio {
            kind,
            status,
            has_messages: messages & MSI_X_ENABLE != 0,
        })
    }

    fn loses_state(self, is_decoding: bool) -> bool {
        match self.status {
            _ if self.kind.is_set_up_again() => false,
            Some(status) => status & (DRIVER | FAILED) == DRIVER,
            // Without a driver it does not decode.
            None => self.has_messages || self.kind.has_no_suspend() && is_decoding,
        }
    }
}

impl Facts {
    fn read(
        config: &impl ConfigSpace,
        host: &HostBridge,
        read8: impl Fn(u64) -> Option<u8>,
        Present { function, header }: Present,
    ) -> Result<Self, PciError> {
        let id = config.read32(function, ID);
        let virtio = VirtioKind::of(id)
            .map(|kind| Virtio::read(config, host, read8, (function, kind)))
            .transpose()?;
        Ok(Facts {
            id,
            class: config.read32(function, CLASS) >> 8,
            command: config.read32(function, COMMAND) & 0xffff,
            is_bridge: is_bridge(header),
            virtio,
        })
    }

    /// Returns whether a power-off destroys state that no stock driver sets up again.
    fn loses_state(&self) -> bool {
        if self.is_bridge || self.class >> 16 == CLASS_BRIDGE {
            // A bridge's configuration is its only state, and Linux restores it.
            return false;
        }
        let (vendor, device) = (self.id & 0xffff, self.id >> 16);
        let is_decoding = self.command & (COMMAND_IO | COMMAND_MEMORY) != 0;
        let is_without_suspend = || {
            let mut all = WITHOUT_SUSPEND.iter();
            all.any(|(of, devices)| *of == vendor && devices.contains(&device))
        };
        match self.virtio {
            Some(virtio) => virtio.loses_state(is_decoding),
            None if is_without_suspend() => is_decoding,
            None => self.command & COMMAND_MASTER != 0 && !self.is_set_up_again(vendor),
        }
    }

    fn is_set_up_again(&self, vendor: u32) -> bool {
        let mut classes = SET_UP_AGAIN.iter();
        classes.any(|(class, ignored)| self.class >> ignored == class >> ignored)
            || (vendor, self.class) == MEGARAID
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;
    use crate::model::{Model, Node, host};
    use crate::register::COMMAND_NO_INTX;

    const ON: u32 = COMMAND_MEMORY;
    const MASTER: u32 = COMMAND_MEMORY | COMMAND_MASTER;
    /// Without `DRIVER_OK`.
    const OK: Option<u8> = Some(0xb);
    const RESET: Option<u8> = Some(0);
    const UNREAD: Option<u8> = None;

    fn facts(id: u32, class: u32, command: u32) -> Facts {
        Facts {
            // As `lspci` writes it: the vendor first.
            id: id.rotate_left(16),
            class,
            command,
            is_bridge: false,
            virtio: None,
        }
    }

    fn of_virtio(id: u32, command: u32, status: Option<u8>) -> Facts {
        let facts = facts(id, 0x00_ff_00, command);
        let kind = VirtioKind::of(facts.id).unwrap();
        let virtio = Some(Virtio {
            kind,
            status,
            // With messages a driver switches INTx off.
            has_messages: command & COMMAND_NO_INTX != 0,
        });
        Facts { virtio, ..facts }
    }

    /// What stock kernels 6.12 and 7.2 leave on QEMU's devices at their SUSP call.
    #[test]
    fn drivers_that_resume_are_not_named() {
        for facts in [
            facts(0x1b36_0008, 0x06_00_00, 0),
            facts(0x1b36_000c, 0x06_04_00, 0x407),
            facts(0x1b36_0010, 0x01_08_02, 0x002),
            facts(0x1b36_0010, 0x01_08_02, 0x406),
            facts(0x8086_2922, 0x01_06_01, 0x407),
            facts(0x8086_10d3, 0x02_00_00, 0x002),
            facts(0x8086_100e, 0x02_00_00, 0x003),
            facts(0x1b36_000d, 0x0c_03_30, 0x402),
            facts(0x1b36_000d, 0x0c_03_30, 0x406),
            facts(0x1b36_0013, 0x01_09_01, 0x006),
            facts(0x1b36_0007, 0x08_05_01, 0x006),
            facts(0x1b36_0014, 0x08_06_00, 0x406),
            facts(0x1000_0060, 0x01_04_00, 0x006),
            facts(0x1000_0079, 0x01_04_00, 0x006),
            facts(0x1000_0054, 0x01_00_00, 0x002),
            facts(0x1234_1111, 0x03_80_00, 0x002),
            facts(0x1af4_1110, 0x05_00_00, 0x002),
            of_virtio(0x1af4_1042, ON, RESET),
            of_virtio(0x1af4_1000, ON, RESET),
            of_virtio(0x1af4_1049, ON, Some(1)),
            of_virtio(0x1af4_1049, ON, Some(0x83)),
            // 6.12 removes the queues without a reset.
            of_virtio(0x1af4_1052, ON, OK),
            // No driver, or the old interface alone.
            of_virtio(0x1af4_1009, 0, UNREAD),
            of_virtio(0x1af4_1001, ON, UNREAD),
            of_virtio(0x1af4_1041, ON, UNREAD),
            of_virtio(0x1af4_1052, 0x402, UNREAD),
            facts(0x1000_0012, 0x01_00_00, 0),
        ] {
            assert!(!facts.loses_state(), "{facts:x?}");
        }
    }

    #[test]
    fn drivers_without_a_suspend_are_named() {
        for facts in [
            of_virtio(0x1af4_1009, 0x403, OK),
            of_virtio(0x1af4_1049, 0x402, OK),
            of_virtio(0x1af4_1050, 0x402, OK),
            of_virtio(0x1af4_1049, ON, Some(0x4f)),
            of_virtio(0x1af4_1049, ON, Some(0xf)),
            of_virtio(0x1af4_1009, ON, UNREAD),
            of_virtio(0x1af4_1049, ON, UNREAD),
            of_virtio(0x1af4_1077, 0x402, UNREAD),
            facts(0x1000_0012, 0x01_00_00, 0x003),
            facts(0x1000_000f, 0x01_00_00, 0x007),
            facts(0x10e8_8406, 0xff_00_00, 0x001),
            facts(0x1234_11e8, 0x00_ff_00, MASTER),
            facts(0x8086_10d3, 0x02_00_00, MASTER),
        ] {
            assert!(facts.loses_state(), "{facts:x?}");
        }
    }

    #[test]
    fn functions_behind_bridges_are_named_with_their_numbers() {
        let step = |device| Step {
            device,
            function: 0,
        };
        let mut masters = [1, 9].map(|device| Node::other(step(device), 0x1000, false));
        for node in &mut masters {
            node.registers[1] |= MASTER;
        }
        let [below, beside] = masters;
        let mut bridge = Node::bridge(step(3), 5, vec![below, Node::nvme(step(2), 0x4000, true)]);
        bridge.registers[6] = 0x0002_0100;
        bridge.registers[1] |= MASTER;
        let model = Model::new(vec![bridge, beside]);
        let before = model.snapshot();
        let mut names = Vec::new();
        let none = |_| -> Option<u8> { unreachable!("no virtio device") };
        in_use(&model, &host(), none, |found| names.push(found.to_string())).unwrap();
        assert_eq!(names, ["00:09.0 (1b36:0010)", "01:01.0 (1b36:0010)"]);
        model.assert_unchanged(&before);
    }
}
