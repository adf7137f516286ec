use super::*;
use crate::PciError;

const FREE: u64 = 0x4100_0000;

fn register(function: Function, offset: u8) -> Register {
    Register { function, offset }
}

/// One function with a BAR 2 of 64 KiB.
fn one() -> Lists {
    Lists::default()
        .function(at(0, 4))
        .range(0x18, AddressKind::Memory32, FREE, 0x1_0000)
}

fn one_node() -> Node {
    Node::other(step(4), 0x1_0000, false)
}

/// What placing a plan is refused for; all functions are off then.
fn refused(plan: &Lists, nodes: Vec<Node>) -> PlacementError {
    let mut nodes = nodes;
    for node in &mut nodes {
        node.registers[1] |= 7 & node.writable[1];
    }
    let model = Model::new(nodes);
    let error = plan.place(&model).unwrap_err();
    assert!(is_silent(&model.snapshot()), "{error}");
    error
}

#[test]
fn a_plan_is_refused_by_name() {
    let other = at(0, 5);
    assert_eq!(
        one().function(at(0, 4)).check(),
        Err(PlacementError::Twice(at(0, 4)))
    );
    assert_eq!(
        one().function(at(1, 0)).check(),
        Err(PlacementError::UnknownBus(at(1, 0)))
    );
    let range = |register, kind, start, length| {
        let plan = one().function(other);
        plan.range(register, kind, start, length).check()
    };
    let (io, memory, wide) = (
        AddressKind::Io,
        AddressKind::Memory32,
        AddressKind::Memory64,
    );
    for (offset, kind) in [(0x1c, wide), (0x24, memory), (0x10, io)] {
        assert_eq!(
            range(offset, kind, 0, 0),
            Err(PlacementError::NoRegister(register(other, offset)))
        );
    }
    for (offset, kind) in [
        (0x12, memory),
        (0x28, memory),
        (0x24, wide),
        (0x30, io),
        (0x38, memory),
    ] {
        let error = PlacementError::NoRegister(register(other, offset));
        assert_eq!(range(offset, kind, 0x4200_0000, 0x1000), Err(error));
    }
    let misaligned = range(0x10, memory, 0x4200_0800, 0x1000).unwrap_err();
    assert_eq!(
        misaligned.to_string(),
        "register 0x10 of PCI function 00:05.0: 0x42000800 does not fit its alignment of 0x1000"
    );
    let uneven = range(0x10, memory, 0x4200_0000, 0x1800).unwrap_err();
    assert!(matches!(uneven, PlacementError::Misaligned { .. }));
    for (kind, start, limit) in [(memory, 0x1_0000_0000, 1 << 32), (io, 0x1_0000, 1 << 16)] {
        let register = register(other, 0x10);
        let error = PlacementError::TooHigh { register, limit };
        assert_eq!(range(0x10, kind, start, 0x1000), Err(error));
    }
    for (kind, start) in [
        (memory, 0x3fff_f000),
        (memory, 0x8000_0000),
        (wide, 0x9_0000_0000),
    ] {
        let error = PlacementError::OutsideHost(register(other, 0x10));
        assert_eq!(range(0x10, kind, start, 0x1000), Err(error));
    }
    let stranger = one().range_of(other, 0x10, memory, PhysRange::new(0x4200_0000, 0x1000));
    assert_eq!(
        stranger.check(),
        Err(PlacementError::NoRegister(register(other, 0x10)))
    );
}

#[test]
fn addresses_that_two_functions_would_decode_are_refused() {
    let overlap = |plan: Lists, first, second| {
        assert_eq!(plan.check(), Err(PlacementError::Overlap { first, second }));
    };
    let mine = register(at(0, 4), 0x18);
    let plan = one()
        .function(at(0, 5))
        .range(0x10, AddressKind::Memory64, FREE + 0x8000, 0x8000);
    overlap(plan, mine, register(at(0, 5), 0x10));
    // A bridge's window, named or not.
    let plan = one()
        .bridge(at(0, 1), 1, 1)
        .range(0x20, AddressKind::Memory32, FREE, 0x10_0000);
    overlap(plan, mine, register(at(0, 1), 0x20));
    let plan = one().bridge(at(0, 1), 1, 1).function(at(1, 0)).range(
        0x10,
        AddressKind::Memory32,
        FREE + 0x2_0000,
        0x1000,
    );
    overlap(plan, mine, register(at(0, 1), 0x20));
    // I/O addresses are others than memory's.
    let plan = Lists::default()
        .function(at(0, 2))
        .range(0x10, AddressKind::Io, 0x1000, 0x100)
        .range(0x14, AddressKind::Io, 0x1080, 0x80);
    overlap(plan, register(at(0, 2), 0x10), register(at(0, 2), 0x14));
}

#[test]
fn a_bridge_must_forward_what_is_below_it() {
    let plan = Lists::default()
        .bridge(at(0, 1), 1, 1)
        .range(0x20, AddressKind::Memory32, FREE, 0x10_0000)
        .function(at(1, 0));
    let plan = plan.range(0x10, AddressKind::Memory32, FREE + 0x10_0000, 0x1000);
    let outside = PlacementError::OutsideBridge {
        register: register(at(1, 0), 0x10),
        bridge: at(0, 1),
    };
    assert_eq!(plan.check(), Err(outside));
    let uneven =
        Lists::default()
            .bridge(at(0, 1), 1, 1)
            .range(0x20, AddressKind::Memory32, FREE, 0x8_0000);
    assert!(matches!(
        uneven.check(),
        Err(PlacementError::Misaligned { .. })
    ));
    // Above 4 GiB there is only the prefetchable window.
    let plan = Lists::default()
        .bridge(at(0, 1), 1, 1)
        .function(at(1, 1))
        .range(0x10, AddressKind::Memory64, 0x6_0000_0000, 0x4000);
    let nodes = vec![bridge(1, vec![Node::nvme(step(1), 0x4000, true)])];
    let error = PlacementError::NotPrefetchable(register(at(1, 1), 0x10));
    assert_eq!(refused(&plan, nodes), error);
}

#[test]
fn bus_numbers_are_nested() {
    let faulty = |bridges: &[(Function, u8, u8)]| {
        let plan = bridges
            .iter()
            .fold(Lists::default(), |plan, (function, first, last)| {
                plan.bridge(*function, *first, *last)
            });
        matches!(plan.check(), Err(PlacementError::Buses(_)))
    };
    assert!(!faulty(&[
        (at(0, 1), 1, 4),
        (at(1, 1), 2, 3),
        (at(2, 0), 3, 3),
        (at(0, 2), 5, 5)
    ]));
    assert!(faulty(&[(at(0, 1), 0, 1)]));
    assert!(faulty(&[(at(0, 1), 2, 1)]));
    assert!(faulty(&[(at(0, 1), 1, 2), (at(0, 2), 2, 3)]));
    assert!(faulty(&[(at(0, 1), 1, 1), (at(0, 2), 1, 1)]));
    assert!(faulty(&[(at(0, 1), 1, 2), (at(1, 0), 2, 3)]));
    assert!(faulty(&[
        (at(0, 1), 1, 4),
        (at(1, 0), 2, 3),
        (at(1, 1), 3, 4)
    ]));
    let many = (0..17).fold(Lists::default(), |plan, number| {
        plan.bridge(at(0, number), number + 1, number + 1)
    });
    assert_eq!(many.check(), Err(PlacementError::TooManyBridges(at(0, 16))));
}

#[test]
fn hardware_that_differs_from_the_plan_is_refused_by_name() {
    assert_eq!(refused(&one(), vec![]), PlacementError::Absent(at(0, 4)));
    let as_bridge = Lists::default().bridge(at(0, 4), 1, 1);
    assert_eq!(
        refused(&as_bridge, vec![one_node()]),
        PlacementError::BridgeOrNot(at(0, 4))
    );
    let as_function = Lists::default().function(at(0, 4));
    assert_eq!(
        refused(&as_function, vec![bridge(4, vec![])]),
        PlacementError::BridgeOrNot(at(0, 4))
    );
    let bar = register(at(0, 4), 0x18);
    assert_eq!(
        refused(&one(), vec![Node::other(step(4), 0x2_0000, false)]),
        PlacementError::Size {
            register: bar,
            named: 0x1_0000,
            found: 0x2_0000
        }
    );
    assert_eq!(
        refused(&one(), vec![Node::new(step(4), 0x0200_0001)]),
        PlacementError::Size {
            register: bar,
            named: 0x1_0000,
            found: 0
        }
    );
    assert_eq!(
        refused(&one(), vec![Node::other(step(4), 0x1_0000, true)]),
        PlacementError::Kind(bar)
    );
    let mut more = one_node();
    more.bar(0, 0x1000, false);
    assert_eq!(
        refused(&one(), vec![more]),
        PlacementError::Unnamed(register(at(0, 4), 0x10))
    );
    let mut stuck = one_node();
    stuck.define(4, 0x0010_0000, 0x0540);
    assert_eq!(
        refused(&one(), vec![stuck]),
        PlacementError::Stuck(register(at(0, 4), 4))
    );
}

#[test]
fn a_function_that_cannot_be_turned_on_turns_the_others_off() {
    let mut stuck = with_ports(5, &[0x80]);
    stuck.define(4, 0x0010_0000, 0x0546);
    let plan = one()
        .function(at(0, 5))
        .range(0x10, AddressKind::Io, 0x1000, 0x80);
    assert_eq!(
        refused(&plan, vec![one_node(), stuck]),
        PlacementError::Stuck(register(at(0, 5), 4))
    );
}

#[test]
fn bridges_that_fence_nothing_are_refused() {
    let plan = Lists::default().bridge(at(0, 1), 1, 1);
    let mut subtractive = bridge(1, vec![]);
    subtractive.registers[2] |= 1 << 8;
    assert_eq!(
        refused(&plan, vec![subtractive]),
        PlacementError::Subtractive(at(0, 1))
    );
    let root_port = Node::bridge(step(1), 4, vec![]);
    assert_eq!(
        refused(&plan, vec![root_port]),
        PlacementError::RootPort(at(0, 1))
    );
    let mut damaged = bridge(1, vec![]);
    damaged.registers[13] = 0x10;
    let error = PciError::CapabilityList(at(0, 1));
    assert_eq!(refused(&plan, vec![damaged]), PlacementError::Pci(error));
}

/// The domain's OS could turn it on, and nothing has looked at it.
#[test]
fn a_function_below_a_bridge_needs_a_name() {
    let below = || vec![with_ports(2, &[0x80]), with_ports(7, &[8])];
    let plan = Lists::default().bridge(at(0, 1), 1, 1);
    let named = plan.clone().function(at(1, 2));
    for (plan, unlisted) in [(plan, at(1, 2)), (named.clone(), at(1, 7))] {
        let error = refused(&plan, vec![bridge(1, below())]);
        assert_eq!(error, PlacementError::Unlisted(unlisted));
    }
    let all = named.function(at(1, 7));
    all.place(&Model::new(vec![bridge(1, below())])).unwrap();
}

#[test]
fn a_bridge_may_lack_the_windows_that_it_does_not_need() {
    let mut plain = bridge(1, vec![one_node()]);
    for window in [0x1c, 0x24, 0x28, 0x2c] {
        plain.define(window, 0, 0);
    }
    let model = Model::new(vec![plain]);
    let plan = Lists::default().bridge(at(0, 1), 1, 1);
    let memory = plan
        .clone()
        .function(at(1, 4))
        .range(0x18, AddressKind::Memory32, FREE, 0x1_0000);
    memory.place(&model).unwrap();
    let ports = plan.range(0x1c, AddressKind::Io, 0x1000, 0x1000);
    let ports = ports.function(at(1, 4));
    let error = PlacementError::Stuck(register(at(0, 1), 0x1c));
    assert_eq!(ports.place(&model), Err(error));
}
