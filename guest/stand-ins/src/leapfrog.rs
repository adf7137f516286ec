//! Six coupled wave equations by the leapfrog scheme. Access: a stencil of 13 points, in the order
//! of the grid, over the present of each field; its past and future, point by point.

use crate::Stage;
use crate::memory::Floats;

/// Points of an edge. Two at each side are the boundary, which stays.
const EDGE: usize = 40;
const MARGIN: usize = 2;
const POINTS: usize = EDGE * EDGE * EDGE;
const FIELDS: usize = 6;
/// The squared time step, and how much fields act on each other.
const STEP: f64 = 0.1;
const COUPLING: f64 = 0.02;

/// A field at the last time, now and at the next time.
type Times<'m> = [Floats<'m>; 3];

/// The Laplacian of fourth order, times 12.
fn laplacian(field: Floats<'_>, at: usize) -> f64 {
    let mut sum = -90.0 * field.get(at);
    for step in [1, EDGE, EDGE * EDGE] {
        sum += 16.0 * (field.get(at - step) + field.get(at + step));
        sum -= field.get(at - 2 * step) + field.get(at + 2 * step);
    }
    sum
}

fn step(fields: &[Times<'_>; FIELDS]) {
    let inner = MARGIN..EDGE - MARGIN;
    for z in inner.clone() {
        for y in inner.clone() {
            let line = (z * EDGE + y) * EDGE;
            for at in line + inner.start..line + inner.end {
                let trace: f64 = fields.iter().map(|[_, now, _]| now.get(at)).sum();
                for [last, now, next] in fields {
                    let force = laplacian(*now, at) / 12.0 - COUPLING * trace;
                    next.set(at, 2.0 * now.get(at) - last.get(at) + STEP * force);
                }
            }
        }
    }
}

/// Moves forward, and after half of the rounds back again; the greatest difference from the start.
/// The scheme is reversible, so that is an error of rounding. A round is a time step.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let mut fields: [Times<'_>; FIELDS] =
        [(); FIELDS].map(|()| [(); 3].map(|()| stage.arena.floats(POINTS)));
    let start = |number: usize, at: usize| {
        let [x, y, z] = [at % EDGE, at / EDGE % EDGE, at / EDGE / EDGE];
        let bump = [x, y, z].map(|at| (at * (EDGE - 1 - at)) as f64 / (EDGE * EDGE) as f64);
        bump.iter().product::<f64>() * (number + 1) as f64
    };
    for (number, times) in fields.iter().enumerate() {
        for of_time in times {
            of_time.fill((0..POINTS).map(|at| start(number, at)));
        }
    }
    stage.begin();
    for round in 0..stage.rounds {
        if round == stage.rounds / 2 {
            fields
                .iter_mut()
                .for_each(|[last, now, _]| core::mem::swap(last, now));
        }
        step(&fields);
        fields.iter_mut().for_each(|times| times.rotate_left(1));
    }
    let all = fields.iter().enumerate().flat_map(|(number, times)| {
        let values = times[1].iter().enumerate();
        values.map(move |(at, value)| (value - start(number, at)).abs())
    });
    all.fold(0.0, f64::max)
}
