//! No function but the device's own reaches memory.

use super::{location, step};
use crate::model::{Model, Node, host};
use crate::{PciError, Step, acquire, silence};

const MASTER: u32 = 1 << 2;

/// A function of some kind that an OS left with access to memory, or without.
fn left(mut node: Node, is_master: bool) -> Node {
    node.registers[1] |= 2 | if is_master { MASTER } else { 0 };
    node
}

fn other(device: u8, is_master: bool) -> Node {
    left(Node::other(step(device), 0x1000, false), is_master)
}

fn nvme(device: u8) -> Node {
    Node::nvme(step(device), 0x4000, true)
}

/// The devices that reach memory, each by its way from the host bridge: all bridges above
/// one pass it on.
fn masters(nodes: &[Node]) -> Vec<Vec<u8>> {
    let is_master = |node: &&Node| node.command() & MASTER != 0;
    let ways = nodes.iter().filter(is_master).flat_map(|node| {
        let own = [node.step.device];
        if !node.is_bridge() {
            return vec![own.to_vec()];
        }
        let below = masters(&node.children).into_iter();
        below.map(|way| [own.to_vec(), way].concat()).collect()
    });
    ways.collect()
}

#[test]
fn all_but_the_device_are_silent_for_a_while() {
    let second = Step {
        device: 3,
        function: 1,
    };
    let own = Node::bridge(
        step(1),
        5,
        vec![
            left(Node::bridge(step(2), 6, vec![nvme(0)]), true),
            other(4, true),
        ],
    );
    let beside = left(Node::bridge(step(2), 4, vec![other(0, true)]), true);
    let mut pair = other(3, true);
    // Of several functions.
    pair.registers[3] |= 1 << 23;
    let mut twin = other(3, true);
    twin.step = second;
    let model = Model::new(vec![own, beside, pair, twin, other(5, false), nvme(6)]);
    let before = model.snapshot();
    let place = location(&[1, 2], 0);
    let handle = acquire(&model, &model, &host(), &place).unwrap();
    assert!(
        masters(&model.snapshot()).len() > 3,
        "what is to be silenced"
    );
    let silenced = silence(&model, &host(), Some(&place)).unwrap();
    assert_eq!(masters(&model.snapshot()), [[1, 2, 0]]);
    silenced.release(&model);
    let all = silence(&model, &host(), None).unwrap();
    assert!(masters(&model.snapshot()).is_empty());
    all.release(&model);
    handle.release(&model, &model);
    model.assert_unchanged(&before);
}

#[test]
fn more_than_can_be_noted_are_an_error() {
    let functions = (0..80).map(|number: u8| {
        let mut node = other(number / 8, true);
        node.step.function = number % 8;
        node.registers[3] |= 1 << 23;
        node
    });
    let model = Model::new(functions.chain([nvme(20)]).collect());
    let before = model.snapshot();
    let error = silence(&model, &host(), Some(&location(&[], 20))).unwrap_err();
    assert!(matches!(error, PciError::TooManyMasters(_)), "{error}");
    model.assert_unchanged(&before);
}
