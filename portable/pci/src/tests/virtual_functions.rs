//! Functions with virtual ones, which no list has.

use proptest::prelude::*;

use super::step;
use crate::model::{Model, Node, host};
use crate::{ConfigSpace, Function, PciError, has_virtual_functions, refuse_virtual_functions};

fn other(device: u8) -> Node {
    Node::other(step(device), 0x1000, false)
}

fn with_virtual_functions(device: u8, are_enabled: bool) -> Node {
    let mut node = other(device);
    node.virtual_functions(are_enabled);
    node
}

fn at(bus: u8, device: u8) -> Function {
    Function {
        bus,
        device,
        function: 0,
    }
}

#[test]
fn they_are_seen_once_they_are_enabled() {
    let mut behind = Node::bridge(step(1), 4, vec![with_virtual_functions(0, true)]);
    // It has the numbers that an OS gave it.
    behind.registers[6] = 0x0001_0100;
    let nodes = |is_behind: bool, is_enabled| {
        let bridge = is_behind.then(|| behind.clone());
        let own = [other(0), with_virtual_functions(2, is_enabled)];
        bridge.into_iter().chain(own).collect()
    };
    for (is_behind, is_enabled, refused) in [
        (false, false, None),
        (false, true, Some(at(0, 2))),
        (true, false, Some(at(1, 0))),
    ] {
        let model = Model::new(nodes(is_behind, is_enabled));
        let before = model.snapshot();
        let found = refuse_virtual_functions(&model, &host());
        assert_eq!(found.err(), refused.map(PciError::VirtualFunctions));
        model.assert_unchanged(&before);
    }
}

#[test]
fn a_conventional_function_has_no_extended_space() {
    let mut node = with_virtual_functions(2, true);
    // The list of its capabilities ends before PCI Express.
    node.registers[crate::model::MSI / 4] &= !0xff00;
    let model = Model::new(vec![node]);
    assert_eq!(has_virtual_functions(&model, at(0, 2)), Ok(false));
}

/// Extended capabilities in any order, and of any number.
#[derive(Debug)]
struct Space {
    dwords: Vec<u32>,
}

impl ConfigSpace for Space {
    fn read32(&self, _: Function, register: u16) -> u32 {
        match register {
            0x04 => 0x0010_0000,
            0x34 => 0x70,
            0x70 => 0x0002_0010,
            _ => {
                let place = usize::from(register - 0x100) / 4;
                self.dwords.get(place).copied().unwrap_or(u32::MAX)
            }
        }
    }

    fn write32(&self, _: Function, _: u16, _: u32) {
        panic!("nobody writes");
    }
}

proptest! {
    /// Whichever capabilities there are, and wherever, the one is found or is not there.
    #[test]
    fn the_capability_is_found_wherever_it_is(
        mut places in proptest::collection::hash_set(1_usize..60, 0..12),
        own in proptest::option::of(1_usize..60),
        are_enabled: bool,
    ) {
        places.insert(0);
        places.extend(own);
        let chain: Vec<usize> = std::iter::once(0)
            .chain(places.into_iter().filter(|place| *place != 0))
            .collect();
        let mut dwords = vec![0; 60 * 16];
        for (number, place) in chain.iter().enumerate() {
            let next = chain.get(number + 1).map_or(0, |next| 0x100 + next * 0x40) as u32;
            let id = if Some(*place) == own { 0x10 } else { 0x0b };
            dwords[place * 16] = next << 20 | 1 << 16 | id;
            dwords[place * 16 + 2] = u32::from(are_enabled);
        }
        let found = has_virtual_functions(&Space { dwords }, at(0, 1));
        prop_assert_eq!(found, Ok(own.is_some() && are_enabled));
    }

    /// Whatever registers hold, the search ends.
    #[test]
    fn any_space_is_searched_to_an_end(dwords in proptest::collection::vec(any::<u32>(), 0..960)) {
        let _any = has_virtual_functions(&Space { dwords }, at(0, 1));
    }

    #[test]
    fn a_loop_is_damage(from in 1_u32..60, to in 0_u32..60) {
        prop_assume!(to <= from);
        let mut dwords = vec![0; 60 * 16];
        for place in 0..=from {
            let next = if place == from { to } else { place + 1 };
            dwords[place as usize * 16] = (0x100 + next * 0x40) << 20 | 1 << 16 | 0x0b;
        }
        let function = at(0, 1);
        let found = has_virtual_functions(&Space { dwords }, function);
        prop_assert_eq!(found, Err(PciError::CapabilityList(function)));
    }
}
