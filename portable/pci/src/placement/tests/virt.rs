//! A machine like QEMU's `virt` with two domains: a bridge with a Linux's disk, and the critical
//! guest's cards on the first bus.

use super::*;

const RAM_DISK: u64 = 0x5000_0000;

fn nodes() -> Vec<Node> {
    let mut below = bridge(1, vec![Node::nvme(step(1), 0x4000, true)]);
    // Its own registers.
    below.bar(0, 0x100, true);
    vec![
        below,
        with_ports(2, &[0x80, 0x80, 0x8]),
        with_ports(3, &[8]),
        Node::other(step(4), 0x10_0000, false),
        Node::nvme(step(5), 0x4000, true),
    ]
}

fn plan() -> Lists {
    Lists::default()
        .bridge(at(0, 1), 1, 3)
        .range(0x20, AddressKind::Memory32, RAM_DISK, 0x0ff0_0000)
        .function(at(1, 1))
        .range(0x10, AddressKind::Memory64, RAM_DISK, 0x4000)
        .function(at(0, 2))
        .range(0x10, AddressKind::Io, 0x1000, 0x80)
        .range(0x14, AddressKind::Io, 0x1080, 0x80)
        .range(0x18, AddressKind::Io, 0x1100, 8)
        .function(at(0, 3))
        .range(0x10, AddressKind::Io, 0x1108, 8)
        .function(at(0, 4))
        .range(0x18, AddressKind::Memory32, 0x4000_0000, 0x10_0000)
}

#[test]
fn each_register_has_its_value() {
    let model = Model::new(nodes());
    plan().check().unwrap();
    plan().place(&model).unwrap();
    let after = model.snapshot();
    let [bridge, can, serial, card, disk] = &after[..] else {
        panic!()
    };
    assert_eq!(bridge.registers[6], 0x0003_0100);
    assert_eq!(bridge.registers[8] & 0xfff0_fff0, 0x5fe0_5000);
    // No I/O or prefetchable window, and no address of its own.
    assert_eq!(bridge.registers[7] & 0xf0f0, 0x00f0);
    assert_eq!(bridge.registers[9] & 0xfff0_fff0, 0x0000_fff0);
    assert_eq!(bridge.registers[4..6], [4, 0]);
    assert_eq!(bridge.command() & 7, 6);
    // The OS below turns it on.
    let below = &bridge.children[0];
    assert_eq!(below.registers[4..6], [RAM_DISK as u32 | 4, 0]);
    assert_eq!(below.command() & 7, 0);
    assert_eq!(can.registers[4..7], [0x1001, 0x1081, 0x1101]);
    assert_eq!(serial.registers[4], 0x1109);
    assert_eq!([can.command() & 7, serial.command() & 7], [5, 5]);
    assert_eq!((card.registers[6], card.command() & 7), (0x4000_0000, 6));
    // It is not named: no decoding, no access to memory, no INTx.
    assert_eq!(disk.command() & 0x407, 0x400);
}

#[test]
fn the_state_before_makes_no_difference() {
    let first = Model::new(nodes());
    plan().place(&first).unwrap();
    let expected = first.snapshot();
    plan().place(&first).unwrap();
    first.assert_unchanged(&expected);

    let mut left = nodes();
    for node in &mut left {
        node.registers[1] |= 0x0407;
        node.registers[4] |= 0x7000_0000 & node.writable[4];
    }
    // An earlier stage gave the bridge other numbers, and all addresses.
    left[0].registers[6] = 0x00ff_0500;
    left[0].registers[8] = 0xfff0_0000;
    left[0].registers[9] |= 0xfff0_0000;
    left[0].registers[11] = 7;
    // VGA addresses beside the windows, and a reset of the bus below.
    left[0].writable[15] |= 0x0048_0000;
    left[0].registers[15] |= 0x0048_0000;
    left[0].children[0].registers[1] |= 6;
    let second = Model::new(left);
    plan().place(&second).unwrap();
    for (node, expected) in second.snapshot().iter().zip(&expected) {
        assert_eq!(node.command() & 7, expected.command() & 7);
        if expected.command() & 7 != 0 {
            assert_eq!(node.registers[4..12], expected.registers[4..12]);
            assert_eq!(node.registers[15], expected.registers[15]);
        }
        for (child, expected) in node.children.iter().zip(&expected.children) {
            assert_eq!(child.registers, expected.registers);
        }
    }
}

#[test]
fn a_bridge_without_a_named_window_encloses_what_is_below_it() {
    let wide = {
        let mut node = Node::new(step(2), 0x0500_0001);
        node.bar(0, 0x1000, false);
        node.bar(2, 1 << 30, true);
        node.registers[6] |= 8;
        node
    };
    let model = Model::new(vec![bridge(
        1,
        vec![with_ports(1, &[0x20]), bridge(3, vec![wide])],
    )]);
    let plan = Lists::default()
        .function(at(2, 2))
        .range(0x10, AddressKind::Memory32, 0x4230_1000, 0x1000)
        .range(0x18, AddressKind::Memory64, 0x6_0000_0000, 1 << 30)
        .bridge(at(1, 3), 2, 2)
        .bridge(at(0, 1), 1, 2)
        .function(at(1, 1))
        .range(0x10, AddressKind::Io, 0x2040, 0x20);
    plan.place(&model).unwrap();
    let after = model.snapshot();
    let (outer, inner) = (&after[0], &after[0].children[1]);
    for bridge in [outer, inner] {
        assert_eq!(bridge.registers[8] & 0xfff0_fff0, 0x4230_4230);
        assert_eq!(bridge.registers[9] & 0xfff0_fff0, 0x3ff0_0000);
        assert_eq!(bridge.registers[10..12], [6, 6]);
    }
    assert_eq!(outer.registers[7] & 0xf0f0, 0x2020);
    assert_eq!(inner.registers[7] & 0xf0f0, 0x00f0);
    assert_eq!([outer.command() & 7, inner.command() & 7], [7, 6]);
}

#[test]
fn an_expansion_rom_has_its_address_and_stays_off() {
    let model = Model::new(nodes());
    let plan = plan().range(0x30, AddressKind::Memory32, 0x4080_0000, 0x1_0000);
    plan.place(&model).unwrap();
    assert_eq!(model.snapshot()[3].registers[12], 0x4080_0000);
}
