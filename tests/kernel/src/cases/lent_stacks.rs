//! After a wake, the pages of a kernel's stack lie in one piece, then in other orders, and again in one
//! piece. Deep calls cross them, as the weak hart's translated code. Each call must find what it stored.
//!
//! On the command line: `rounds=N`.

use core::hint::black_box;

use super::lent;
use crate::{
    arch::kernel_space::{self, IN_ORDER, PAGE, STACK_BYTES, StackOrder},
    check,
    machine::Machine,
};

const ORDERS: [StackOrder; 4] = [IN_ORDER, [3, 2, 1, 0], [0, 2, 1, 3], IN_ORDER];

/// Words that a call stores.
const WORDS: usize = 16;

/// Calls below each other. Their frames reach the stack's last page.
const DEPTH: usize = 44;

#[derive(Debug)]
struct Calls {
    seed: u64,
    /// The page of the lowest frame.
    lowest: usize,
}

/// A call, and those below it. Returns the words that they find changed.
#[inline(never)]
extern "C" fn descend(calls: &mut Calls, depth: usize) -> u64 {
    let wanted = calls.seed ^ depth as u64;
    let frame = black_box([wanted; WORDS]);
    calls.seed = calls.seed.rotate_left(7).wrapping_add(1);
    let below = match depth {
        0 => {
            calls.lowest = (&raw const frame).addr() % STACK_BYTES / PAGE;
            0
        }
        _ => descend(calls, depth - 1),
    };
    let changed = black_box(frame).into_iter().filter(|&word| word != wanted);
    below + changed.count() as u64
}

pub(super) fn run(machine: &Machine) {
    lent::sleep_once(machine, 1);
    let mut changed = [0; ORDERS.len()];
    let mut calls = Calls {
        seed: 1,
        lowest: usize::MAX,
    };
    for _ in 0..machine.number("rounds", 200) {
        for (order, changed) in ORDERS.into_iter().zip(&mut changed) {
            *changed += kernel_space::with(order, |space| space.call(descend, &mut calls, DEPTH));
        }
    }
    lent::give_back();
    check!(
        calls.lowest == 0,
        "the lowest frame is on page {}",
        calls.lowest
    );
    check!(
        changed == [0; ORDERS.len()],
        "changed words by the order of the stack's pages: {changed:?}"
    );
}
