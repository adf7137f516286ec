//! A* on a grid with terrain. Access: four neighbours of cells in the order of a heap, and the heap.

use crate::Stage;
use crate::memory::{Arena, Indices, Numbers};
use crate::random::Random;

/// Cells of an edge.
const EDGE: usize = 512;
const CELLS: usize = EDGE * EDGE;
/// The cost of entering a cell is from 1 to this; 0: a wall.
const MOST_COST: usize = 8;
/// Of ten cells, those that are walls.
const WALLS: usize = 2;
/// Entries of the heap: each cell is entered from at most four sides.
const MOST_OPEN: usize = 4 * CELLS;

/// The grid, and the state of a search.
#[derive(Debug)]
pub struct Map<'m> {
    costs: Indices<'m>,
    /// A cell's distance in the lower half; in the upper one the search that it is of.
    reached: Numbers<'m>,
    /// Estimate in the upper half, cell in the lower one: the least is on top.
    heap: Numbers<'m>,
    length: usize,
    search: u64,
}

impl<'m> Map<'m> {
    /// A map with random terrain.
    pub fn new(arena: &mut Arena<'m>) -> Self {
        let map = Map {
            costs: arena.indices(CELLS),
            reached: arena.numbers(CELLS),
            heap: arena.numbers(MOST_OPEN),
            length: 0,
            search: 0,
        };
        let mut random = Random(7);
        for cell in 0..CELLS {
            let is_wall = random.below(10) < WALLS;
            let cost = if is_wall {
                0
            } else {
                1 + random.below(MOST_COST)
            };
            map.costs.set(cell, cost);
        }
        map
    }

    /// The cell's neighbours that are no walls, with the costs of entering them.
    pub fn neighbours(&self, cell: usize) -> impl Iterator<Item = (usize, u64)> + use<'m> {
        let (x, y) = (cell % EDGE, cell / EDGE);
        let all = [
            (x > 0).then(|| cell - 1),
            (x + 1 < EDGE).then_some(cell + 1),
            (y > 0).then(|| cell.saturating_sub(EDGE)),
            (y + 1 < EDGE).then_some(cell + EDGE),
        ];
        let costs = self.costs;
        (all.into_iter().flatten())
            .map(move |cell| (cell, costs.get(cell) as u64))
            .filter(|(_, cost)| *cost > 0)
    }

    fn push(&mut self, entry: u64) {
        let mut at = self.length;
        self.length += 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            let above = self.heap.get(parent);
            if above <= entry {
                break;
            }
            self.heap.set(at, above);
            at = parent;
        }
        self.heap.set(at, entry);
    }

    fn pop(&mut self) -> Option<u64> {
        self.length = self.length.checked_sub(1)?;
        let top = self.heap.get(0);
        let last = self.heap.get(self.length);
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            if child >= self.length {
                break;
            }
            if child + 1 < self.length && self.heap.get(child + 1) < self.heap.get(child) {
                child += 1;
            }
            let below = self.heap.get(child);
            if last <= below {
                break;
            }
            self.heap.set(at, below);
            at = child;
        }
        self.heap.set(at, last);
        Some(top)
    }

    /// The cell's distance, if this search has reached it.
    fn known(&self, cell: usize) -> Option<u64> {
        let state = self.reached.get(cell);
        (state >> 32 == self.search).then_some(state & u64::from(u32::MAX))
    }

    fn reach(&mut self, cell: usize, distance: u64, goal: usize) {
        self.reached.set(cell, self.search << 32 | distance);
        let estimate = distance + apart(cell, goal);
        self.push(estimate << 32 | cell as u64);
    }
}

/// The least cost between two cells, without walls.
fn apart(one: usize, other: usize) -> u64 {
    let [x, y] = [EDGE, 1].map(|by| {
        let [one, other] = [one, other].map(|cell| cell / by % EDGE);
        one.abs_diff(other)
    });
    (x + y) as u64
}

/// The cost of the cheapest path, if there is one.
pub fn distance(map: &mut Map<'_>, start: usize, goal: usize) -> Option<u64> {
    map.search += 1;
    map.length = 0;
    map.reach(start, 0, goal);
    while let Some(entry) = map.pop() {
        let cell = usize::try_from(entry & u64::from(u32::MAX)).ok()?;
        let reached = map.known(cell)?;
        if cell == goal {
            return Some(reached);
        }
        if entry >> 32 != reached + apart(cell, goal) {
            // A shorter path to this cell was found later, and is done.
            continue;
        }
        for (next, cost) in map.neighbours(cell) {
            let through = reached + cost;
            if map.known(next).is_none_or(|known| through < known) {
                map.reach(next, through, goal);
            }
        }
    }
    None
}

/// Searches between random cells; the sum of distances. A round is a search.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let mut map = Map::new(&mut stage.arena);
    stage.begin();
    let mut random = Random(77);
    let mut sum = 0;
    for _ in 0..stage.rounds {
        let [start, goal] = [(); 2].map(|()| random.below(CELLS));
        sum += distance(&mut map, start, goal).unwrap_or_default();
    }
    sum as f64
}
