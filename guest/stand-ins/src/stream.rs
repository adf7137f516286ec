//! STREAM: copy, scale, add and triad. Access: whole arrays, in order.

use crate::{Floats, Stage};

/// Numbers of an array: 8 MiB, as STREAM requires four times the caches.
const LENGTH: usize = 1 << 20;
const FACTOR: f64 = 3.0;

/// The part of the three arrays that one process uses.
#[derive(Clone, Copy)]
struct Arrays<'m> {
    a: Floats<'m>,
    b: Floats<'m>,
    c: Floats<'m>,
}

/// Runs a kernel on this process's part; the sum of all numbers.
fn run(mut stage: Stage<'_>, kernel: impl Fn(Arrays<'_>)) -> f64 {
    let part = stage.team.part(LENGTH);
    let [a, b, c] = [(); 3].map(|()| stage.arena.floats(LENGTH).part(part.clone()));
    for (array, value) in [(a, 1.0), (b, 2.0), (c, 4.0)] {
        array.fill(core::iter::repeat(value));
    }
    stage.begin();
    for _ in 0..stage.rounds {
        kernel(Arrays { a, b, c });
        stage.team.wait();
    }
    let sum = [a, b, c].map(|array| array.iter().sum::<f64>());
    stage.team.sum(sum.iter().sum()) / LENGTH as f64
}

/// `c = a`.
pub(crate) fn copy(stage: Stage<'_>) -> f64 {
    run(stage, |at| at.c.fill(at.a.iter()))
}

/// `b = s c`.
pub(crate) fn scale(stage: Stage<'_>) -> f64 {
    run(stage, |at| at.b.fill(at.c.iter().map(|c| FACTOR * c)))
}

/// `c = a + b`.
pub(crate) fn add(stage: Stage<'_>) -> f64 {
    run(stage, |at| {
        at.c.fill(at.a.iter().zip(at.b.iter()).map(|(a, b)| a + b));
    })
}

/// `a = b + s c`.
pub(crate) fn triad(stage: Stage<'_>) -> f64 {
    run(stage, |at| {
        let pairs = at.b.iter().zip(at.c.iter());
        at.a.fill(pairs.map(|(b, c)| b + FACTOR * c));
    })
}
