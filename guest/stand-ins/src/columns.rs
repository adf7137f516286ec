//! A weather model's step. Access: advection along planes, then each column from bottom to top.

use crate::Stage;
use crate::memory::Floats;

/// Cells in the two horizontal directions, which are periodic, and levels.
const WIDTH: usize = 64;
const DEPTH: usize = 64;
const LEVELS: usize = 32;
const CELLS: usize = WIDTH * DEPTH * LEVELS;
/// What the winds carry.
const TRACERS: usize = 4;
const STEP: f64 = 0.2;
const MIXING: f64 = 0.3;

/// The place of a cell.
fn place(x: usize, y: usize, level: usize) -> usize {
    (y * LEVELS + level) * WIDTH + x
}

/// The winds between a cell and the next one.
struct Winds<'m> {
    east: Floats<'m>,
    north: Floats<'m>,
}

/// The amount that a wind carries from a cell to the next one.
fn carried(wind: f64, here: f64, next: f64) -> f64 {
    if wind > 0.0 { wind * here } else { wind * next }
}

impl Winds<'_> {
    fn advect(&self, from: Floats<'_>, to: Floats<'_>) {
        for y in 0..DEPTH {
            let [south, north] = [(y + DEPTH - 1) % DEPTH, (y + 1) % DEPTH];
            for level in 0..LEVELS {
                for x in 0..WIDTH {
                    let [west, east] = [(x + WIDTH - 1) % WIDTH, (x + 1) % WIDTH];
                    let at = place(x, y, level);
                    let here = from.get(at);
                    let at_west = place(west, y, level);
                    let at_south = place(x, south, level);
                    let gain = carried(self.east.get(at_west), from.get(at_west), here)
                        - carried(self.east.get(at), here, from.get(place(east, y, level)))
                        + carried(self.north.get(at_south), from.get(at_south), here)
                        - carried(self.north.get(at), here, from.get(place(x, north, level)));
                    to.set(at, here + STEP * gain);
                }
            }
        }
    }
}

/// Mixes each column: an implicit step, by elimination from bottom to top and back.
fn mix(tracer: Floats<'_>) {
    for y in 0..DEPTH {
        for x in 0..WIDTH {
            let mut upper = [0.0; LEVELS];
            let mut right = [0.0; LEVELS];
            for level in 0..LEVELS {
                let below = if level > 0 { MIXING } else { 0.0 };
                let above = if level + 1 < LEVELS { MIXING } else { 0.0 };
                let before = level.wrapping_sub(1);
                let last = upper.get(before).copied().unwrap_or_default();
                let pivot = 1.0 + below + above - below * last;
                let carried = below * right.get(before).copied().unwrap_or_default();
                upper[level] = above / pivot;
                right[level] = (tracer.get(place(x, y, level)) + carried) / pivot;
            }
            let mut value = 0.0;
            for level in (0..LEVELS).rev() {
                value = right[level] + upper[level] * value;
                tracer.set(place(x, y, level), value);
            }
        }
    }
}

/// Steps of the model; the amounts over those at the start, which no step changes. A round is a
/// step.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let winds = Winds {
        east: stage.arena.floats(CELLS),
        north: stage.arena.floats(CELLS),
    };
    let mut tracers = [(); TRACERS].map(|()| [(); 2].map(|()| stage.arena.floats(CELLS)));
    for at in 0..CELLS {
        let turn = |of: usize| (of % 13) as f64 / 13.0 - 0.5;
        winds.east.set(at, turn(at / 7));
        winds.north.set(at, turn(at / 11 + 5));
        for (number, [now, next]) in tracers.iter().enumerate() {
            now.set(at, 1.0 + ((at >> number) % 5) as f64);
            next.set(at, 0.0);
        }
    }
    let amount = |tracers: &[[Floats<'_>; 2]; TRACERS]| -> f64 {
        tracers.iter().map(|[now, _]| now.iter().sum::<f64>()).sum()
    };
    let start = amount(&tracers);
    stage.begin();
    for _ in 0..stage.rounds {
        for [now, next] in &mut tracers {
            winds.advect(*now, *next);
            mix(*next);
            core::mem::swap(now, next);
        }
    }
    amount(&tracers) / start
}
