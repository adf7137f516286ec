//! What is told beforehand is what refuses a stop.

use std::vec::Vec;

use poorwill_medium::pci::model::{COMMAND, Model, Node, host};
use poorwill_medium::pci::{ConfigSpace, Function, Step};

use super::board::Board;
use super::machine::{FUNCTION, Fake, Registers};
use super::stop;
use crate::{KeeperError, MAX_DEVICES, Machine, Survey};

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

#[test]
fn a_device_without_a_keeper_is_told_while_it_is_in_use() {
    let machine = Fake::new(Node::other(STEP, 0x1000, false), &[2], Nothing);
    let reason = KeeperError::NoKeeper(FUNCTION);
    assert_eq!(told(&machine.config(0)), [reason]);
    assert_eq!(stop(&machine).err(), Some(reason));
    machine.config(0).write32(FUNCTION, 4, 0x0002);
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
