//! Conjugate gradients. Access: a sparse matrix in order, and its vector by index.

use core::ops::Range;

use crate::memory::{Floats, Indices};
use crate::{Stage, Team};

/// Points of an edge of the cube.
const EDGE: usize = 32;
const ROWS: usize = EDGE * EDGE * EDGE;
/// Entries of a row: the point and its neighbours.
const MOST: usize = 27;
/// Steps of a solution, after which the next one begins.
const STEPS: u64 = 40;

/// A matrix by rows: a Laplacian of 27 points.
struct Matrix<'m> {
    starts: Indices<'m>,
    columns: Indices<'m>,
    values: Floats<'m>,
}

/// The points around a coordinate.
fn around(at: usize) -> Range<usize> {
    at.saturating_sub(1)..(at + 2).min(EDGE)
}

fn neighbours(row: usize) -> impl Iterator<Item = usize> {
    let (x, y, z) = (row % EDGE, row / EDGE % EDGE, row / EDGE / EDGE);
    around(z).flat_map(move |z| {
        around(y).flat_map(move |y| around(x).map(move |x| (z * EDGE + y) * EDGE + x))
    })
}

impl Matrix<'_> {
    fn prepare(&self, team: &Team<'_>, rows: Range<usize>) {
        if team.is_first() {
            let mut start = 0;
            for row in 0..ROWS {
                self.starts.set(row, start);
                start += neighbours(row).count();
            }
            self.starts.set(ROWS, start);
        }
        team.wait();
        for row in rows {
            for (at, column) in (self.starts.get(row)..).zip(neighbours(row)) {
                self.columns.set(at, column);
                let is_own = column == row;
                self.values.set(at, if is_own { 26.0 } else { -1.0 });
            }
        }
    }

    fn times(&self, vector: Floats<'_>, row: usize) -> f64 {
        let range = self.starts.get(row)..self.starts.get(row + 1);
        let values = self.values.part(range.clone()).iter();
        let columns = self.columns.iter(range);
        values
            .zip(columns)
            .map(|(value, column)| value * vector.get(column))
            .sum()
    }
}

/// Solves a system again and again; the squared residual over the right side's. A round is a step.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let matrix = Matrix {
        starts: stage.arena.indices(ROWS + 1),
        columns: stage.arena.indices(ROWS * MOST),
        values: stage.arena.floats(ROWS * MOST),
    };
    let [x, r, p, q] = [(); 4].map(|()| stage.arena.floats(ROWS));
    let team = &stage.team;
    let rows = team.part(ROWS);
    matrix.prepare(team, rows.clone());
    stage.begin();
    let right = ROWS as f64;
    let mut squares = right;
    for round in 0..stage.rounds {
        if round % STEPS == 0 {
            for row in rows.clone() {
                x.set(row, 0.0);
                r.set(row, 1.0);
                p.set(row, 1.0);
            }
            squares = right;
            team.wait();
        }
        let mut product = 0.0;
        for row in rows.clone() {
            let times = matrix.times(p, row);
            q.set(row, times);
            product += times * p.get(row);
        }
        let length = squares / team.sum(product);
        let mut next = 0.0;
        for row in rows.clone() {
            x.add(row, length * p.get(row));
            let rest = r.get(row) - length * q.get(row);
            r.set(row, rest);
            next += rest * rest;
        }
        let next = team.sum(next);
        let ratio = next / squares;
        squares = next;
        for row in rows.clone() {
            p.set(row, r.get(row) + ratio * p.get(row));
        }
        team.wait();
    }
    squares / right
}
