//! Single cases of search and use.

use super::{decode, location, os, step};
use crate::model::{EXPRESS, MSI, MSI_X, Model, Node, POWER, host};
use crate::{DeviceHandle, Function, Location, MAX_DEPTH, PciError, acquire, find};

pub(super) const LENGTH: u64 = 0x4000;

pub(super) fn simple() -> Node {
    Node::nvme(step(3), LENGTH, true)
}

pub(super) fn try_claim(model: &Model, location: &Location) -> Result<DeviceHandle, PciError> {
    acquire(model, model, &host(), location)
}

/// Claims, lets `check` look, releases; everything must be as before.
pub(super) fn borrow(model: &Model, location: &Location, check: impl FnOnce(&DeviceHandle)) {
    let before = model.snapshot();
    let handle = try_claim(model, location).unwrap();
    check(&handle);
    handle.release(model, model);
    model.assert_unchanged(&before);
}

/// Acquiring must fail thus and leave no trace.
fn refuse(node: Node, error: impl Fn(Function) -> PciError) {
    let function = Function {
        bus: 0,
        device: 3,
        function: 0,
    };
    let model = Model::new(vec![node]);
    let before = model.snapshot();
    assert_eq!(
        try_claim(&model, &location(&[], 3)).err(),
        Some(error(function))
    );
    model.assert_unchanged(&before);
}

/// The one function that answers at the device's address.
pub(super) fn answering(model: &Model, pci_address: u64) -> Vec<(Vec<crate::Step>, bool)> {
    decode::decoders(&model.root.borrow(), pci_address)
}

#[test]
fn at_power_on_an_address_is_chosen() {
    let model = Model::new(vec![simple()]);
    let search = find(&model, &model, &host());
    assert_eq!(
        (search.devices.as_slice(), search.complaint),
        ([location(&[], 3)].as_slice(), None)
    );
    borrow(&model, &search.devices[0], |handle| {
        assert_eq!(
            (handle.cpu_address(), handle.length()),
            (0x7fff_c000, LENGTH)
        );
        assert_eq!(answering(&model, 0x7fff_c000), [(vec![step(3)], true)]);
        assert_eq!(
            model.root.borrow()[0].command() & 0x400,
            0x400,
            "INTx is off"
        );
    });
}

#[test]
fn an_address_beyond_four_gib_is_translated() {
    let mut node = simple();
    (node.registers[4], node.registers[5]) = (0x1000_4004, 4);
    let model = Model::new(vec![node]);
    borrow(&model, &location(&[], 3), |handle| {
        assert_eq!(handle.cpu_address(), 0x5_1000_4000)
    });
}

#[test]
fn an_address_outside_the_windows_is_replaced() {
    let mut node = simple();
    node.registers[4] = 0x3000_0004;
    let model = Model::new(vec![node]);
    borrow(&model, &location(&[], 3), |handle| {
        assert_eq!(handle.cpu_address(), 0x7fff_c000)
    });
}

#[test]
fn a_wide_bar_takes_an_upper_window_if_there_is_no_other() {
    let mut host = host();
    host.windows.remove(0);
    let model = Model::new(vec![simple()]);
    let handle = acquire(&model, &model, &host, &location(&[], 3)).unwrap();
    assert_eq!(handle.cpu_address(), 0x8_ffff_c000);
    handle.release(&model, &model);

    let model = Model::new(vec![Node::nvme(step(3), LENGTH, false)]);
    let error = acquire(&model, &model, &host, &location(&[], 3)).err();
    assert!(matches!(
        error,
        Some(PciError::NoAddress { length: LENGTH, .. })
    ));
}

#[test]
fn chosen_addresses_are_nobody_elses() {
    // The top of the window is taken by a BAR, what is below by a ROM and then
    // by the window of a bridge.
    let mut other = Node::other(step(1), 0x10_0000, false);
    other.registers[6] = 0x7ff0_0000;
    other.registers[12] = 0x7ef0_0001;
    other.registers[1] |= 2;
    let mut bridge = Node::bridge(step(2), 4, Vec::new());
    bridge.registers[8] = 0x7ee0_7000;
    bridge.registers[1] |= 6;
    let model = Model::new(vec![other, bridge, simple()]);
    borrow(&model, &location(&[], 3), |handle| {
        assert_eq!(handle.cpu_address(), 0x6fff_c000)
    });
}

#[test]
fn bridges_are_numbered_and_opened() {
    let switch = Node::bridge(
        step(0),
        5,
        vec![Node::bridge(
            step(4),
            6,
            vec![Node::nvme(step(0), LENGTH, true)],
        )],
    );
    let model = Model::new(vec![Node::bridge(step(1), 4, vec![switch]), simple()]);
    let before = model.snapshot();
    let search = find(&model, &model, &host());
    model.assert_unchanged(&before);
    assert_eq!(search.complaint, None);
    let expected = [location(&[1, 0, 4], 0), location(&[], 3)];
    assert_eq!(search.devices.as_slice(), expected);
    borrow(&model, &expected[0], |handle| {
        assert_eq!(handle.cpu_address(), 0x7ff0_0000);
        let way = vec![step(1), step(0), step(4), step(0)];
        assert_eq!(answering(&model, 0x7ff0_0000), [(way, true)]);
    });
}

#[test]
fn an_address_that_one_bridge_withholds_is_replaced() {
    for closed in [0, 1] {
        let inner = Node::bridge(step(0), 4, vec![Node::nvme(step(0), LENGTH, true)]);
        let mut nodes = vec![Node::bridge(step(1), 5, vec![inner])];
        os::configure(&mut nodes);
        let bridge = if closed == 0 {
            &mut nodes[0]
        } else {
            &mut nodes[0].children[0]
        };
        bridge.registers[8] = 0xfff0;
        let model = Model::new(nodes);
        borrow(&model, &location(&[1, 0], 0), |handle| {
            assert_eq!(handle.cpu_address(), 0x7ff0_0000)
        });
    }
}

#[test]
fn sleepers_are_woken_and_put_to_sleep_again() {
    for keeps in [true, false] {
        let mut port = Node::bridge(step(1), 4, vec![Node::nvme(step(0), LENGTH, true)]);
        os::configure(std::slice::from_mut(&mut port));
        port.registers[POWER / 4 + 1] = 0x8103;
        port.registers[0x3c / 4] |= 0x0403_0000;
        port.keeps = keeps;
        port.children[0].registers[POWER / 4 + 1] = 0x8003;
        port.children[0].registers[EXPRESS / 4 + 2] = 0x000f_2810;
        port.children[0].keeps = keeps;
        let address = u64::from(port.children[0].registers[4] & !0xf);
        let model = Model::new(vec![port]);
        let before = model.snapshot();
        assert_eq!(
            find(&model, &model, &host()).devices.as_slice(),
            [location(&[1], 0)]
        );
        model.assert_unchanged(&before);
        borrow(&model, &location(&[1], 0), |handle| {
            assert_eq!(handle.cpu_address(), address, "the OS's address is kept");
            let root = model.root.borrow();
            let controller = &root[0].children[0].registers;
            assert_eq!(
                controller[EXPRESS / 4 + 2],
                0x000f_2810,
                "device control is lost"
            );
            assert_eq!(controller[MSI_X / 4] >> 31, 0, "MSI-X is on");
        });
    }
}

#[test]
fn message_interrupts_are_off_while_claimed() {
    let mut node = simple();
    node.registers[MSI / 4] |= 0x0001_0000;
    node.registers[MSI_X / 4] |= 0x8000_0000;
    let model = Model::new(vec![node]);
    borrow(&model, &location(&[], 3), |_| {
        let root = model.root.borrow();
        assert_eq!(root[0].registers[MSI / 4] & 0x0001_0000, 0);
        assert_eq!(root[0].registers[MSI_X / 4] >> 31, 0);
    });
}

#[test]
fn what_was_cut_off_stays_so() {
    let mut node = simple();
    os::configure(std::slice::from_mut(&mut node));
    let model = Model::new(vec![node]);
    let mut expected = model.snapshot();
    let handle = try_claim(&model, &location(&[], 3)).unwrap();
    handle.cut_dma(&model);
    assert_eq!(model.root.borrow()[0].command() & 4, 0);
    handle.release(&model, &model);
    expected[0].registers[1] &= !4;
    model.assert_unchanged(&expected);
}

#[test]
fn bars_that_are_none_are_refused() {
    let mut io = simple();
    io.registers[4] = 1;
    let not_memory = |function| PciError::NotMemory { function, bar: 0 };
    let size = |function| PciError::Size { function, bar: 0 };
    refuse(io, not_memory);
    let mut reserved = simple();
    reserved.registers[4] = 6;
    refuse(reserved, not_memory);
    let mut none = simple();
    (none.writable[4], none.writable[5]) = (0, 0);
    refuse(none, size);
    let mut torn = simple();
    torn.writable[4] = 0xffff_4000;
    refuse(torn, size);
    refuse(Node::nvme(step(3), 0x200, true), size);
    refuse(Node::nvme(step(3), 1 << 40, true), size);
}

#[test]
fn stuck_registers_are_told() {
    let mut deaf = simple();
    deaf.writable[1] = 0x0442;
    refuse(deaf, |function| PciError::Stuck {
        function,
        register: 4,
    });
    let mut asleep = simple();
    asleep.registers[POWER / 4 + 1] = 3;
    asleep.is_stuck = true;
    refuse(asleep, PciError::Asleep);
}

#[test]
fn circles_of_capabilities_end() {
    let mut circle = simple();
    circle.registers[MSI / 4] = 0x0080_0009 | (MSI as u32) << 8;
    refuse(circle, PciError::CapabilityList);
    let mut header = simple();
    header.registers[0x34 / 4] = 0x10;
    refuse(header, PciError::CapabilityList);
    let mut gone = simple();
    gone.registers[POWER / 4] = u32::MAX;
    refuse(gone, PciError::CapabilityList);
}

#[test]
fn a_capability_that_ends_behind_its_space_is_refused() {
    let at_the_end = |register: u32| {
        let mut node = simple();
        node.registers[0x34 / 4] = 0xfc;
        node.registers[0xfc / 4] = register;
        node
    };
    refuse(at_the_end(0x0003_0001), PciError::CapabilityList);
    // One that is asleep, and whose MSI registers would have to be kept.
    let mut asleep = simple();
    asleep.registers[POWER / 4 + 1] = 3;
    asleep.registers[POWER / 4] = asleep.registers[POWER / 4] & !0xff00 | 0xfc00;
    asleep.registers[0xfc / 4] = 0x0080_0005;
    refuse(asleep, PciError::CapabilityList);
}

#[test]
fn locations_that_are_out_of_date_are_told() {
    let model = Model::new(vec![simple(), Node::other(step(4), 0x1000, false)]);
    let at = |device| Function {
        bus: 0,
        device,
        function: 0,
    };
    assert_eq!(
        try_claim(&model, &location(&[], 5)).err(),
        Some(PciError::Absent(at(5)))
    );
    assert_eq!(
        try_claim(&model, &location(&[], 4)).err(),
        Some(PciError::Changed(at(4)))
    );
    assert_eq!(
        try_claim(&model, &location(&[3], 0)).err(),
        Some(PciError::Changed(at(3)))
    );
}

#[test]
fn chains_of_bridges_have_an_end() {
    let mut node = simple();
    for _ in 0..=MAX_DEPTH {
        node.step = step(0);
        node = Node::bridge(step(0), 5, vec![node]);
    }
    let model = Model::new(vec![node, simple()]);
    let before = model.snapshot();
    let search = find(&model, &model, &host());
    assert_eq!(search.devices.as_slice(), [location(&[], 3)]);
    assert!(matches!(search.complaint, Some(PciError::TooDeep(_))));
    model.assert_unchanged(&before);
}

/// Every function on every bus is a bridge to a bus of more of the same.
#[test]
fn a_maze_of_bridges_has_an_end() {
    struct Maze(std::cell::Cell<u64>);
    impl crate::ConfigSpace for Maze {
        fn read32(&self, function: Function, register: u16) -> u32 {
            self.0.set(self.0.get() + 1);
            let bus = function.bus;
            match register {
                0x00 => 0x0001_1b36,
                0x0c => 0x0081_0000,
                0x18 => u32::from_le_bytes([bus, bus + 1, 255, 0]),
                _ => 0,
            }
        }

        fn write32(&self, _: Function, _: u16, _: u32) {}
    }
    let maze = Maze(std::cell::Cell::new(0));
    let search = find(&maze, &Model::new(Vec::new()), &host());
    assert!(search.complaint.is_some());
    assert!(maze.0.get() < 500_000, "{} reads", maze.0.get());
}

#[test]
fn bus_numbers_can_run_out() {
    let mut host = host();
    host.last_bus = 0;
    let model = Model::new(vec![Node::bridge(step(1), 4, vec![simple()])]);
    let search = find(&model, &model, &host);
    assert!(matches!(search.complaint, Some(PciError::NoBus(_))));
    assert!(search.devices.is_empty());
}

#[test]
fn numbers_that_lead_out_of_the_bridge_above_are_replaced() {
    let inner = Node::bridge(step(0), 4, vec![Node::nvme(step(0), LENGTH, true)]);
    let mut nodes = vec![Node::bridge(step(1), 5, vec![inner])];
    os::configure(&mut nodes);
    nodes[0].registers[6] = 0x0003_0100;
    nodes[0].children[0].registers[6] = 0x0009_0901;
    let model = Model::new(nodes);
    assert_eq!(
        find(&model, &model, &host()).devices.as_slice(),
        [location(&[1, 0], 0)]
    );
    borrow(&model, &location(&[1, 0], 0), |handle| {
        assert_eq!(handle.function().bus, 2)
    });
}

#[test]
fn a_new_bridge_gets_numbers_that_no_other_has() {
    let port = |device, children| Node::bridge(step(device), 4, children);
    let mut nodes = vec![
        port(1, vec![Node::other(step(0), 0x1000, false)]),
        port(2, Vec::new()),
    ];
    os::configure(&mut nodes);
    nodes.push(port(5, vec![Node::nvme(step(0), LENGTH, true)]));
    let model = Model::new(nodes);
    assert_eq!(
        find(&model, &model, &host()).devices.as_slice(),
        [location(&[5], 0)]
    );
    borrow(&model, &location(&[5], 0), |handle| {
        assert_eq!(handle.function().bus, 3)
    });
}
