//! Devices that lend memory or registers, and a second BAR of a controller.

use super::device_handles::{LENGTH, answering, borrow, simple, try_claim};
use super::{location, location_of, step};
use crate::model::{Model, Node, host};
use crate::{DeviceHandle, Function, Kind, Location, PciError, acquire, find};

const GIB: u64 = 1 << 30;

fn shared(device: u8) -> Location {
    location_of(Kind::SharedMemory, &[], device)
}

#[test]
fn shared_memory_is_found_and_lent_without_a_right_to_access_memory() {
    let model = Model::new(vec![simple(), Node::shared(step(4), GIB)]);
    let search = find(&model, &model, &host());
    assert_eq!(search.devices.as_slice(), [location(&[], 3), shared(4)]);
    borrow(&model, &search.devices[1], |handle| {
        assert_eq!((handle.cpu_address(), handle.length()), (35 * GIB, GIB));
        assert_eq!(answering(&model, 31 * GIB), [(vec![step(4)], false)]);
        assert!(handle.is_present(&model));
        model.root.borrow_mut()[1].registers[0] = u32::MAX;
        assert!(!handle.is_present(&model));
        model.root.borrow_mut()[1].registers[0] = 0x1110_1af4;
    });
    let other = location_of(Kind::SharedMemory, &[], 3);
    assert!(matches!(
        try_claim(&model, &other),
        Err(PciError::Changed(_))
    ));
}

/// An IOMMU with a page of registers.
fn iommu(device: u8) -> Node {
    let mut node = Node::nvme(step(device), 0x1000, true);
    node.registers[2] = 0x0806_0001;
    node
}

#[test]
fn iommus_are_listed_apart_and_lent_without_a_right_to_access_memory() {
    let port = Node::bridge(step(5), 4, vec![iommu(0)]);
    let model = Model::new(vec![simple(), iommu(4), port]);
    let search = find(&model, &model, &host());
    assert_eq!(search.devices.as_slice(), [location(&[], 3)]);
    let places = [
        location_of(Kind::Iommu, &[], 4),
        location_of(Kind::Iommu, &[5], 0),
    ];
    assert_eq!(search.iommus.as_slice(), places);
    assert_eq!((search.more_iommus, search.complaint), (None, None));
    borrow(&model, &places[0], |handle| {
        assert_eq!(handle.length(), 0x1000);
        assert_eq!(model.root.borrow()[1].command() & 0b110, 0b010);
    });
}

#[test]
fn more_iommus_than_can_be_opened_are_told() {
    let nodes: Vec<Node> = (1..=4 + 2).map(iommu).collect();
    let model = Model::new(nodes);
    let search = find(&model, &model, &host());
    assert_eq!(search.iommus.len(), 4);
    let first = Function {
        bus: host().first_bus,
        device: 4 + 1,
        function: 0,
    };
    assert_eq!(search.more_iommus, Some(PciError::TooManyIommus(first)));
}

#[test]
fn memory_goes_beyond_four_gib_if_it_can() {
    let model = Model::new(vec![Node::shared(step(4), 4 * GIB)]);
    borrow(&model, &shared(4), |handle| {
        assert_eq!((handle.cpu_address(), handle.length()), (32 * GIB, 4 * GIB));
        assert_eq!(answering(&model, 28 * GIB + 1), [(vec![step(4)], false)]);
    });
    let mut low = host();
    low.windows.remove(1);
    let model = Model::new(vec![Node::shared(step(4), GIB)]);
    let handle = acquire(&model, &model, &low, &shared(4)).unwrap();
    assert_eq!((handle.cpu_address(), handle.length()), (GIB, GIB));
    handle.release(&model, &model);

    let model = Model::new(vec![Node::shared(step(4), 32 * GIB)]);
    let before = model.snapshot();
    assert!(matches!(
        try_claim(&model, &shared(4)),
        Err(PciError::NoAddress { length, .. }) if length == 32 * GIB
    ));
    model.assert_unchanged(&before);
}

#[test]
fn large_memory_behind_bridges_takes_their_prefetchable_windows() {
    let switch = Node::bridge(
        step(0),
        5,
        vec![Node::bridge(
            step(4),
            6,
            vec![Node::shared(step(0), 4 * GIB)],
        )],
    );
    let way = location_of(Kind::SharedMemory, &[1, 0, 4], 0);
    let port = Node::bridge(step(1), 4, vec![switch]);
    let model = Model::new(vec![port.clone()]);
    borrow(&model, &way, |handle| {
        assert_eq!((handle.cpu_address(), handle.length()), (32 * GIB, 4 * GIB));
        let steps = vec![step(1), step(0), step(4), step(0)];
        for address in [28 * GIB, 32 * GIB - 1] {
            assert_eq!(answering(&model, address), [(steps.clone(), false)]);
        }
    });

    // One on the way whose window has 32 bits.
    let mut narrow = port;
    narrow.children[0].define(0x24, 0, 0xfff0_fff0);
    let model = Model::new(vec![narrow]);
    let error = try_claim(&model, &way).err();
    assert!(matches!(error, Some(PciError::NoAddress { .. })));
}

/// A controller with memory in BAR 4, too.
fn with_memory(device: u8) -> Node {
    let mut node = Node::nvme(step(device), LENGTH, true);
    node.bar(4, 16 << 20, true);
    node.registers[8] |= 0b1000;
    node
}

/// Claims the controller and adds its BAR 4; both must be reached, by way of
/// `steps`, and all be as before in the end.
fn borrow_both(model: &Model, here: &Location, steps: &[crate::Step]) {
    let before = model.snapshot();
    let mut handle = try_claim(model, here).unwrap();
    let add = |handle: &mut DeviceHandle, bar| handle.add_memory(model, model, &host(), here, bar);
    let memory = add(&mut handle, 4).unwrap();
    assert_eq!((memory.end, memory.length()), (36 * GIB, 16 << 20));
    let error = add(&mut handle, 2).err();
    assert!(matches!(error, Some(PciError::Size { bar: 2, .. })));
    let on_bus = |cpu_address| cpu_address - 4 * GIB;
    for address in [
        handle.cpu_address(),
        on_bus(memory.start),
        on_bus(memory.end - 1),
    ] {
        assert_eq!(answering(model, address), [(steps.to_vec(), true)]);
    }
    handle.release(model, model);
    model.assert_unchanged(&before);
}

#[test]
fn a_second_bar_is_lent_beside_the_first() {
    let model = Model::new(vec![with_memory(3), Node::shared(step(4), 1 << 20)]);
    borrow_both(&model, &location(&[], 3), &[step(3)]);
    let model = Model::new(vec![Node::bridge(step(1), 4, vec![with_memory(0)])]);
    borrow_both(&model, &location(&[1], 0), &[step(1), step(0)]);
}

#[test]
fn a_second_bar_takes_no_window_from_the_first() {
    // The bridge's window for plain memory is all there is, and in use.
    let mut bridge = Node::bridge(step(1), 4, vec![with_memory(0)]);
    bridge.define(0x24, 0, 0xfff0_fff0);
    let (model, here) = (Model::new(vec![bridge]), location(&[1], 0));
    let before = model.snapshot();
    let mut handle = try_claim(&model, &here).unwrap();
    let error = handle.add_memory(&model, &model, &host(), &here, 4).err();
    assert!(matches!(error, Some(PciError::NoAddress { .. })));
    let steps = vec![step(1), step(0)];
    assert_eq!(answering(&model, handle.cpu_address()), [(steps, true)]);
    handle.release(&model, &model);
    model.assert_unchanged(&before);
}
