//! What holds on any hierarchy: the addresses of an OS serve as a plan.

use proptest::prelude::*;

use super::*;
use crate::ConfigSpace;
use crate::bus::Bus;
use crate::tests::{decode, os};

/// The plan that an OS's registers describe, without the functions of the first bus that
/// `is_left_out` selects.
fn plan_of(nodes: &[Node], bus: u8, is_left_out: &mut impl FnMut() -> bool) -> Lists {
    let mut plan = Lists::default();
    for node in nodes {
        let function = Function {
            bus,
            device: node.step.device,
            function: node.step.function,
        };
        if node.is_bridge() {
            let [_, first, last, _] = node.registers[6].to_le_bytes();
            plan = plan.bridge(function, first, last);
            let below = plan_of(&node.children, first, is_left_out);
            plan.functions.extend(below.functions);
            plan.ranges.extend(below.ranges);
        } else if bus != 0 || !is_left_out() {
            plan = plan.function(function);
            for bar in 0..6 {
                let (low, mask) = (node.registers[4 + bar], node.writable[4 + bar]);
                let is_wide = low & 7 == 4;
                let is_upper = bar > 0 && node.registers[3 + bar] & 7 == 4;
                if is_upper || mask == 0 {
                    continue;
                }
                let (kind, high) = if is_wide {
                    (AddressKind::Memory64, node.registers[5 + bar])
                } else {
                    (AddressKind::Memory32, 0)
                };
                let start = u64::from(high) << 32 | u64::from(low & !0xf);
                let length = u64::from(mask & mask.wrapping_neg());
                plan = plan.range(0x10 + 4 * bar as u8, kind, start, length);
            }
        }
    }
    plan
}

/// As if all OSes had turned on their functions.
fn turn_on_named(nodes: &mut [Node], bus: u8, plan: &Lists) {
    for node in nodes {
        let function = Function {
            bus,
            device: node.step.device,
            function: node.step.function,
        };
        if plan.functions.iter().any(|one| one.function == function) {
            node.registers[1] |= 6;
        } else {
            assert_eq!(node.command() & 7, 0, "{function} was not named");
        }
        if node.is_bridge() {
            let [_, secondary, ..] = node.registers[6].to_le_bytes();
            turn_on_named(&mut node.children, secondary, plan);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn each_address_is_one_functions_and_the_others_are_off(seed: u64, is_fresh: bool, many: u8) {
        let mut random = os::Random(seed);
        let fresh = os::hierarchy(&mut random, 2);
        let mut configured = fresh.clone();
        os::configure(&mut configured);
        let mut leaves_out = || random.one_in(u64::from(many % 4) + 2);
        let plan = plan_of(&configured, 0, &mut leaves_out);
        let bridges = plan.functions.iter().filter(|one| one.buses.is_some());
        prop_assume!(bridges.count() <= MAX_BRIDGES);
        prop_assert_eq!(plan.check(), Ok(()));

        let model = Model::new(if is_fresh { fresh } else { configured });
        plan.place(&model).unwrap();
        let placed = model.snapshot();
        plan.place(&model).unwrap();
        model.assert_unchanged(&placed);

        // Before an OS does more, only functions of the first bus decode.
        for range in &plan.ranges {
            let answering = decode::decoders(&placed, range.range.start);
            prop_assert_eq!(answering.len(), usize::from(range.function.bus == 0));
        }
        let mut nodes = placed;
        turn_on_named(&mut nodes, 0, &plan);
        for range in &plan.ranges {
            for address in [range.range.start, range.range.end - 1] {
                let answering = decode::decoders(&nodes, address);
                let [(steps, true)] = &answering[..] else {
                    panic!("{answering:?} answer at {address:#x}")
                };
                let own = steps.last().unwrap();
                prop_assert_eq!(own.device, range.function.device);
                prop_assert_eq!(own.function, range.function.function);
            }
        }
    }

    /// Whatever registers hold, placing ends; after an error all functions are off.
    #[test]
    fn hostile_hierarchies_end_in_an_error_with_all_functions_off(seed: u64) {
        let mut random = os::Random(seed);
        let mut nodes = os::hierarchy(&mut random, 2);
        os::configure(&mut nodes);
        let plan = plan_of(&nodes, 0, &mut || false);
        os::corrupt(&mut random, &mut nodes);
        let model = Model::new(nodes);
        if plan.place(&model).is_err() {
            // A device whose first function does not answer cannot be found.
            let mut present = Bus::root(&host()).functions(&model);
            prop_assert!(present.all(|one| model.read32(one.function, 4) & 7 == 0));
        }
    }
}
