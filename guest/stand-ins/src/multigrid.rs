//! Multigrid for Poisson's equation. Access: the planes of grids of five sizes, each several times.

use crate::memory::{Arena, Floats};
use crate::{Stage, Team};

/// Intervals of an edge of the finest grid, and number of grids. Each has half the intervals.
const FINEST: usize = 64;
const LEVELS: usize = 5;
/// Sweeps before and after the coarser grid, and on the coarsest one.
const SMOOTHING: usize = 2;
const COARSEST: usize = 20;

/// A grid with its boundary, on which the solution is zero. Its points are a unit apart.
#[derive(Clone, Copy)]
struct Grid<'m> {
    intervals: usize,
    solution: Floats<'m>,
    right: Floats<'m>,
    residual: Floats<'m>,
}

impl<'m> Grid<'m> {
    fn take(arena: &mut Arena<'m>, level: usize) -> Self {
        let intervals = FINEST >> level;
        let points = (intervals + 1).pow(3);
        let [solution, right, residual] = [(); 3].map(|()| arena.floats(points));
        Grid {
            intervals,
            solution,
            right,
            residual,
        }
    }

    fn edge(&self) -> usize {
        self.intervals + 1
    }

    /// The first point of a line in direction x.
    fn line(&self, z: usize, y: usize) -> usize {
        (z * self.edge() + y) * self.edge()
    }

    /// This process's planes.
    fn planes(&self, team: &Team<'_>) -> impl Iterator<Item = usize> + use<> {
        team.part(self.intervals - 1).map(|plane| plane + 1)
    }

    /// The sum of a point's six neighbours.
    fn neighbours(&self, at: usize) -> f64 {
        let (row, plane) = (self.edge(), self.edge() * self.edge());
        let of = self.solution;
        of.get(at - 1)
            + of.get(at + 1)
            + of.get(at - row)
            + of.get(at + row)
            + of.get(at - plane)
            + of.get(at + plane)
    }

    /// Gauss and Seidel's sweep, by two colours.
    fn smooth(&self, team: &Team<'_>) {
        for colour in 0..2 {
            for z in self.planes(team) {
                for y in 1..self.intervals {
                    let line = self.line(z, y);
                    let first = 1 + (z + y + colour + 1) % 2;
                    for at in (line + first..line + self.intervals).step_by(2) {
                        let value = (self.right.get(at) + self.neighbours(at)) / 6.0;
                        self.solution.set(at, value);
                    }
                }
            }
            team.wait();
        }
    }

    /// Computes the residual; the sum of its squares.
    fn find_residual(&self, team: &Team<'_>) -> f64 {
        let mut squares = 0.0;
        for z in self.planes(team) {
            for y in 1..self.intervals {
                let line = self.line(z, y);
                for at in line + 1..line + self.intervals {
                    let value =
                        self.right.get(at) + self.neighbours(at) - 6.0 * self.solution.get(at);
                    self.residual.set(at, value);
                    squares += value * value;
                }
            }
        }
        team.sum(squares)
    }

    /// The right side of this grid: the weighted residual of the finer one, four times for the
    /// larger interval.
    fn restrict(&self, finer: &Grid<'_>, team: &Team<'_>) {
        for z in self.planes(team) {
            for y in 1..self.intervals {
                for x in 1..self.intervals {
                    let mut sum = 0.0;
                    for (dz, wz) in WEIGHTS {
                        for (dy, wy) in WEIGHTS {
                            let line = finer.line(2 * z + dz - 1, 2 * y + dy - 1) + 2 * x;
                            let row = finer.residual.get(line)
                                + (finer.residual.get(line - 1) + finer.residual.get(line + 1))
                                    / 2.0;
                            sum += wz * wy * row;
                        }
                    }
                    let at = self.line(z, y) + x;
                    self.right.set(at, sum / 2.0);
                    self.solution.set(at, 0.0);
                }
            }
        }
        team.wait();
    }

    /// Adds the coarser grid's solution to this one's, with means in between.
    fn correct(&self, coarser: &Grid<'_>, team: &Team<'_>) {
        for z in self.planes(team) {
            for y in 1..self.intervals {
                let line = self.line(z, y);
                for x in 1..self.intervals {
                    let mut sum = 0.0;
                    for far_z in [z / 2, z.div_ceil(2)] {
                        for far_y in [y / 2, y.div_ceil(2)] {
                            let row = coarser.line(far_z, far_y);
                            sum += coarser.solution.get(row + x / 2)
                                + coarser.solution.get(row + x.div_ceil(2));
                        }
                    }
                    self.solution.add(line + x, sum / 8.0);
                }
            }
        }
        team.wait();
    }
}

/// Weights of three neighbouring points.
const WEIGHTS: [(usize, f64); 3] = [(0, 0.5), (1, 1.0), (2, 0.5)];

fn cycle(grids: &[Grid<'_>], team: &Team<'_>) {
    let Some((grid, coarser)) = grids.split_first() else {
        return;
    };
    let sweeps = if coarser.is_empty() {
        COARSEST
    } else {
        SMOOTHING
    };
    (0..sweeps).for_each(|_| grid.smooth(team));
    if let Some(next) = coarser.first() {
        grid.find_residual(team);
        next.restrict(grid, team);
        cycle(coarser, team);
        grid.correct(next, team);
        (0..SMOOTHING).for_each(|_| grid.smooth(team));
    }
}

/// Solves the equation by V cycles; the squared residual over the right side's. A round is a cycle.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let mut level = 0;
    let grids = [(); LEVELS].map(|()| {
        level += 1;
        Grid::take(&mut stage.arena, level - 1)
    });
    let team = &stage.team;
    let finest = &grids[0];
    let mut squares = 0.0;
    for z in finest.planes(team) {
        for y in 1..FINEST {
            for x in 1..FINEST {
                let value = ((x * y + z) % 7) as f64 - 3.0;
                finest.right.set(finest.line(z, y) + x, value);
                squares += value * value;
            }
        }
    }
    let right = team.sum(squares);
    stage.begin();
    for _ in 0..stage.rounds {
        cycle(&grids, team);
    }
    finest.find_residual(team) / right
}
