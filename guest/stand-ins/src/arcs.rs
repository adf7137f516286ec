//! Pricing of arcs in a network. Access: a chase along arcs, each a line, and to their two nodes.

use crate::Stage;
use crate::memory::{Arena, Numbers};
use crate::random::Random;

/// Nodes and arcs. Each has a line.
const NODES: usize = 1 << 15;
const ARCS: usize = 1 << 18;
const LINE: usize = 8;
/// Fields of an arc: cost, its two nodes, and the next arc of the list.
const COST: usize = 0;
const TAIL: usize = 1;
const HEAD: usize = 2;
const NEXT: usize = 3;
const MOST_COST: usize = 1000;
/// Arcs that become cheaper before a pass.
const CHANGED: usize = 16;
/// The most passes until the first solution. Each of few arcs is an optimum's last.
const MOST_PASSES: usize = 1000;

struct Network<'m> {
    nodes: Numbers<'m>,
    arcs: Numbers<'m>,
}

/// A field of a number that was an index.
fn index(of: Numbers<'_>, at: usize) -> usize {
    usize::try_from(of.get(at)).unwrap_or(usize::MAX)
}

impl<'m> Network<'m> {
    fn take(arena: &mut Arena<'m>) -> Self {
        Network {
            nodes: arena.numbers(NODES * LINE),
            arcs: arena.numbers(ARCS * LINE),
        }
    }

    /// A ring of all nodes, and random arcs. The list of arcs visits each in a random order.
    fn prepare(&self) {
        let mut random = Random(7);
        for arc in 0..ARCS {
            let at = arc * LINE;
            let (tail, head) = match arc < NODES {
                true => (arc, (arc + 1) % NODES),
                false => (random.below(NODES), random.below(NODES)),
            };
            // A generator of full period: each arc is the next one of exactly one arc.
            let next = (arc * 106_541 + 7919) % ARCS;
            self.arcs.set(at + COST, 1 + random.below(MOST_COST) as u64);
            self.arcs.set(at + TAIL, tail as u64);
            self.arcs.set(at + HEAD, head as u64);
            self.arcs.set(at + NEXT, next as u64);
        }
        for node in 1..NODES {
            self.nodes.set(node * LINE, u64::from(u32::MAX));
        }
    }

    /// Looks at all arcs, and lowers the potentials of their heads; the number of lowered ones.
    fn price(&self) -> usize {
        let mut lowered = 0;
        let mut arc = 0;
        for _ in 0..ARCS {
            let at = arc * LINE;
            let tail = index(self.arcs, at + TAIL) * LINE;
            let head = index(self.arcs, at + HEAD) * LINE;
            let potential = self.nodes.get(tail) + self.arcs.get(at + COST);
            if potential < self.nodes.get(head) {
                self.nodes.set(head, potential);
                lowered += 1;
            }
            arc = index(self.arcs, at + NEXT);
        }
        lowered
    }

    /// Makes random arcs cheaper.
    fn change(&self, random: &mut Random) {
        for _ in 0..CHANGED {
            let at = random.below(ARCS) * LINE + COST;
            self.arcs.set(at, self.arcs.get(at).div_ceil(2));
        }
    }
}

/// Whether no arc of a prepared network of this program lowers a potential, once a pass has lowered
/// none.
#[must_use]
pub fn is_settled(mut arena: Arena<'_>) -> bool {
    let network = Network::take(&mut arena);
    network.prepare();
    let is_done = (0..MOST_PASSES).any(|_| network.price() == 0);
    let mut arcs = (0..ARCS).map(|arc| arc * LINE);
    is_done
        && arcs.all(|at| {
            let [tail, head] = [TAIL, HEAD].map(|field| index(network.arcs, at + field) * LINE);
            network.nodes.get(head) <= network.nodes.get(tail) + network.arcs.get(at + COST)
        })
}

/// Keeps potentials right while arcs become cheaper; the sum of potentials. A round is a pass over
/// all arcs. The mark comes after the first solution, since pricing takes most of mcf's time.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let network = Network::take(&mut stage.arena);
    network.prepare();
    for _ in 0..MOST_PASSES {
        if network.price() == 0 {
            break;
        }
    }
    stage.begin();
    let mut random = Random(77);
    for _ in 0..stage.rounds {
        network.change(&mut random);
        network.price();
    }
    let potentials = (0..NODES).map(|node| network.nodes.get(node * LINE) as f64);
    potentials.sum()
}
