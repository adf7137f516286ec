//! Where the INTx messages of a function arrive (PCI-to-PCI Bridge Architecture Specification 1.2,
//! 9.1; PCI Express Base Specification 5.0, table 2-19).

use super::register::INTERRUPT;
use super::{ConfigSpace, Function};

/// An interrupt pin of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// INTA.
    A,
    /// INTB.
    B,
    /// INTC.
    C,
    /// INTD.
    D,
}

impl Pin {
    /// All pins, in their order.
    pub const ALL: [Pin; 4] = [Pin::A, Pin::B, Pin::C, Pin::D];

    /// The pin with this number in registers and in a tree's `interrupt-map`: 1 for INTA to 4 for
    /// INTD. `None`: another number; 0 stands for no INTx.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        Pin::ALL.get(index).copied()
    }

    /// The number of [`from_number`](Self::from_number).
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The pin that a function uses; `None` if it has no INTx.
    #[must_use]
    pub fn of(config: &impl ConfigSpace, function: Function) -> Option<Self> {
        let [_, number, ..] = config.read32(function, INTERRUPT).to_le_bytes();
        Pin::from_number(number)
    }

    /// The pin at a bridge's primary bus to which this pin of `device` below the bridge leads.
    #[must_use]
    pub fn swizzled(self, device: u8) -> Self {
        Pin::ALL[(self as usize + usize::from(device)) % Pin::ALL.len()]
    }
}

/// The device on the bus of the host bridge, and its pin, at which a function's INTx arrives.
///
/// `devices` are the device numbers on the way: those of the bridges from the host bridge down,
/// then the function's own. `None`: it is empty.
///
/// The host bridge's `interrupt-map` then names the source.
#[must_use]
pub fn at_host(devices: &[u8], pin: Pin) -> Option<(u8, Pin)> {
    let (first, below) = devices.split_first()?;
    let pin = below
        .iter()
        .rev()
        .fold(pin, |pin, device| pin.swizzled(*device));
    Some((*first, pin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;
    use crate::model::{Model, Node};

    #[test]
    fn a_bridge_adds_the_device_number() {
        let pins = [0, 1, 2, 3, 4, 31].map(|device| Pin::A.swizzled(device));
        assert_eq!(pins, [Pin::A, Pin::B, Pin::C, Pin::D, Pin::A, Pin::D]);
        assert_eq!(Pin::C.swizzled(3), Pin::B);
    }

    #[test]
    fn a_disk_behind_a_bridge_shares_a_source_with_a_card() {
        // QEMU's `virt` connects its pins like a bridge, to the sources from 32 on.
        let source = |devices: &[u8], pin| {
            let (device, pin) = at_host(devices, pin).unwrap();
            31 + pin.swizzled(device).number()
        };
        // A bridge in slot 1 with a disk in its slot 1, and a card in slot 2.
        assert_eq!(source(&[1, 1], Pin::A), 34);
        assert_eq!(source(&[2], Pin::A), 34);
        assert_eq!(source(&[1], Pin::A), 33);
        assert_eq!(source(&[2], Pin::B), 35);
        assert_eq!(source(&[1, 2, 3], Pin::A), 32 + (1 + 2 + 3) % 4);
    }

    #[test]
    fn an_interrupt_map_is_asked_for_the_outermost_device() {
        assert_eq!(at_host(&[5], Pin::D), Some((5, Pin::D)));
        assert_eq!(at_host(&[1, 2, 3], Pin::A), Some((1, Pin::B)));
        assert_eq!(at_host(&[], Pin::A), None);
    }

    #[test]
    fn a_function_names_its_pin() {
        let step = |device| Step {
            device,
            function: 0,
        };
        let nodes = [0, 1, 4, 5].map(|pin| {
            let mut node = Node::nvme(step(pin), 0x1000, false);
            node.define(0x3c, u32::from(pin) << 8 | 0x55, 0xff);
            node
        });
        let model = Model::new(nodes.into());
        let pins = [0, 1, 4, 5].map(|device| {
            let function = Function {
                bus: 0,
                device,
                function: 0,
            };
            Pin::of(&model, function)
        });
        assert_eq!(pins, [None, Some(Pin::A), Some(Pin::D), None]);
    }
}
