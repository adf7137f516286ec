//! What is told beforehand is what refuses a stop.

use std::vec::Vec;

use poorwill_pci::model::{COMMAND, Model, Node, POWER, host};
use poorwill_pci::{ConfigSpace, Function, PciError, Step};

use super::board::Board;
use super::machine::{FUNCTION, Fake, Registers};
use super::{stop, stop_under};
use crate::{Drivers, KeeperError, MAX_DEVICES, Machine, Survey};

/// A device without registers.
struct Nothing;

impl Registers for Nothing {
    fn read(&mut self, _: &Board, _: u8, _: u64) -> u32 {
        0
    }

    fn write(&mut self, _: &Board, _: u8, _: u64, _: u32) {}

    fn power_on(&mut self, _: &Board) {}
}

fn told(config: &impl ConfigSpace) -> Vec<KeeperError> {
    let mut told = Vec::new();
    let mut survey = Survey::new();
    survey
        .look(config, &host(), |error| told.push(error))
        .unwrap();
    told
}

const STEP: Step = Step {
    device: 2,
    function: 0,
};

/// Whether a function that has this in its command register and its power control refuses.
fn refuses(node: &Node, command: u32, power: u32) -> bool {
    let fresh = || {
        let mut node = node.clone();
        node.registers[POWER / 4 + 1] |= power;
        let machine = Fake::new(node, &[2], Nothing);
        let command_register = COMMAND.try_into().unwrap();
        machine
            .config(0)
            .write32(FUNCTION, command_register, command);
        machine
    };
    let machine = fresh();
    let told = told(&machine.config(0));
    let stopped = stop(&machine);
    assert_eq!(told.first().copied(), stopped.as_ref().err().copied());
    let reason = KeeperError::NoKeeper(FUNCTION);
    assert!(told.iter().all(|found| *found == reason));
    // Its driver has suspended it: what reaches memory is in the way all the same.
    let suspended = stop_under(&fresh(), Drivers::Suspended);
    assert_eq!(suspended.is_err(), command & 4 != 0 && stopped.is_err());
    stopped.is_err()
}

#[test]
fn a_device_without_a_keeper_is_told_while_it_may_hold_anything() {
    let other = || Node::other(STEP, 0x1000, false);
    // With access to memory, and without, as a serial port or a display; by addresses of
    // memory, or of input and output.
    for command in [6, 4, 2, 1, 3] {
        assert!(refuses(&other(), command, 0), "{command}");
    }
    // Never set up, or asleep in a way that forgets.
    assert!(!refuses(&other(), 0, 0));
    assert!(!refuses(&other(), 0x400, 0));
    assert!(!refuses(&other(), 2, 3));
    let mut keeps = other();
    keeps.registers[POWER / 4 + 1] |= 8;
    assert!(refuses(&keeps, 2, 3));
    // A host bridge is its configuration.
    assert!(!refuses(&Node::new(STEP, 0x0600_0000), 3, 0));
    // Another bridge's driver sets it up, as one between two hosts.
    assert!(refuses(&Node::new(STEP, 0x0680_0000), 6, 0));
}

#[test]
fn an_iommu_is_told_and_refuses_even_if_it_seems_unused() {
    for command in [0, 2, 6] {
        for drivers in [Drivers::Running, Drivers::Suspended] {
            let machine = Fake::new(Node::new(STEP, 0x0806_0000), &[2], Nothing);
            let register = COMMAND.try_into().unwrap();
            machine.config(0).write32(FUNCTION, register, command);
            let reason = KeeperError::NoKeeper(FUNCTION);
            assert_eq!(told(&machine.config(0)), [reason]);
            assert_eq!(stop_under(&machine, drivers).err(), Some(reason));
        }
    }
}

#[test]
fn a_device_with_virtual_functions_is_told_and_refuses_whatever_it_is() {
    for is_master in [false, true] {
        for mut node in [
            Node::nvme(STEP, 0x4000, false),
            Node::other(STEP, 0x1000, false),
        ] {
            node.virtual_functions(true);
            let machine = Fake::new(node, &[2], Nothing);
            if !is_master {
                machine.config(0).write32(FUNCTION, 4, 0);
            }
            let reason = KeeperError::Pci(PciError::VirtualFunctions(FUNCTION));
            assert_eq!(told(&machine.config(0)), [reason]);
            assert_eq!(stop(&machine).err(), Some(reason));
        }
    }
    let mut node = Node::other(STEP, 0x1000, false);
    node.virtual_functions(false);
    let machine = Fake::new(node, &[2], Nothing);
    machine.config(0).write32(FUNCTION, 4, 0);
    assert_eq!(told(&machine.config(0)), []);
    assert!(stop(&machine).is_ok());
}

#[test]
fn more_devices_than_can_be_kept_are_told_one_by_one() {
    let nodes: Vec<_> = (1..=MAX_DEVICES + 2)
        .map(|device| {
            let device = device.try_into().unwrap();
            let step = Step {
                device,
                function: 0,
            };
            Node::nvme(step, 0x4000, false)
        })
        .collect();
    let model = Model::new(nodes.clone());
    assert_eq!(told(&model), []);
    for Node { step, .. } in &nodes {
        let function = Function {
            bus: host().first_bus,
            device: step.device,
            function: 0,
        };
        model.write32(function, COMMAND.try_into().unwrap(), 0x0006);
    }
    let told = told(&model);
    assert_eq!(told.len(), 2);
    assert!(
        told.iter()
            .all(|error| matches!(error, KeeperError::TooMany(_)))
    );
}
