//! What holds on any hierarchy.

use proptest::prelude::*;

use super::{decode, os};
use crate::model::{Model, Node, SHARED_MEMORY, host};
use crate::{Kind, Step, acquire, find};

/// The locations of all that is to be found, as steps.
fn devices(nodes: &[Node]) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    for node in nodes {
        if node.is_bridge() {
            for mut steps in devices(&node.children) {
                steps.insert(0, node.step);
                found.push(steps);
            }
        } else if node.registers[2] >> 8 == 0x01_08_02 || node.registers[0] == SHARED_MEMORY {
            found.push(vec![node.step]);
        }
    }
    found
}

/// The address on the bus that the test's host bridge translates.
fn pci_address(cpu_address: u64) -> u64 {
    if cpu_address < 1 << 32 {
        cpu_address
    } else {
        cpu_address - 0x1_0000_0000
    }
}

/// Finds and claims every device; each must be the only one to answer to
/// its registers' addresses, and all must be as before in the end.
fn claim_all(nodes: Vec<Node>) {
    let mut expected = devices(&nodes);
    let model = Model::new(nodes);
    let before = model.snapshot();
    let search = find(&model, &model, &host());
    model.assert_unchanged(&before);
    let too_many = expected.len() > search.devices.capacity();
    assert_eq!(
        search.complaint.is_some(),
        too_many,
        "{:?}",
        search.complaint
    );
    expected.truncate(search.devices.capacity());
    let steps = |location: &crate::Location| {
        location
            .bridges
            .iter()
            .copied()
            .chain([location.function])
            .collect::<Vec<Step>>()
    };
    assert_eq!(
        search.devices.iter().map(steps).collect::<Vec<_>>(),
        expected
    );

    for location in &search.devices {
        let handle = acquire(&model, &model, &host(), location).unwrap();
        let address = pci_address(handle.cpu_address());
        for address in [address, address + handle.length() - 1] {
            let answering = decode::decoders(&model.root.borrow(), address);
            let [(answering, is_master)] = &answering[..] else {
                panic!("{answering:?} answer at {address:#x}")
            };
            assert_eq!(*answering, steps(location));
            assert!(*is_master || location.kind() != Kind::Nvme);
        }
        handle.release(&model, &model);
        model.assert_unchanged(&before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn at_power_on_every_device_can_be_claimed(seed: u64) {
        let mut random = os::Random(seed);
        claim_all(os::hierarchy(&mut random, 3));
    }

    #[test]
    fn after_an_os_every_device_can_be_claimed(seed: u64) {
        let mut random = os::Random(seed);
        let mut nodes = os::hierarchy(&mut random, 3);
        os::configure(&mut nodes);
        os::disturb(&mut random, &mut nodes);
        claim_all(nodes);
    }

    /// Whatever registers hold, search and claims end and leave no traces.
    #[test]
    fn hostile_hierarchies_do_no_harm(seed: u64, configured: bool) {
        let mut random = os::Random(seed);
        let mut nodes = os::hierarchy(&mut random, 3);
        if configured {
            os::configure(&mut nodes);
            os::disturb(&mut random, &mut nodes);
        }
        os::corrupt(&mut random, &mut nodes);
        let model = Model::new(nodes);
        let before = model.snapshot();
        let search = find(&model, &model, &host());
        model.assert_unchanged(&before);
        for location in &search.devices {
            if let Ok(handle) = acquire(&model, &model, &host(), location) {
                let is_inside = host().windows.iter().any(|window| {
                    let offset = handle.cpu_address().checked_sub(window.cpu_address);
                    offset.is_some_and(|offset| offset + handle.length() <= window.length)
                });
                prop_assert!(is_inside);
                handle.release(&model, &model);
            }
            model.assert_unchanged(&before);
        }
    }
}
