//! Sweeps of discrete ordinates. Access: cells in eight directions, with all angles of a cell in a
//! row; each angle of the last time step is read, and written for the next one.

use core::ops::Range;

use crate::Stage;
use crate::memory::Floats;

/// Cells of an edge.
const EDGE: usize = 16;
const CELLS: usize = EDGE * EDGE * EDGE;
/// Angles of an octant, octants, and groups of energy. Processes share the groups.
const ANGLES: usize = 8;
const OCTANTS: usize = 8;
const GROUPS: usize = 8;
/// Total cross-section, speed of a time step, and source.
const SIGMA: f64 = 1.5;
const STEP: f64 = 0.5;
const SOURCE: f64 = 1.0;

/// The cosines of an angle.
const COSINES: [[f64; 3]; ANGLES] = [
    [0.93, 0.26, 0.26],
    [0.26, 0.93, 0.26],
    [0.26, 0.26, 0.93],
    [0.68, 0.68, 0.27],
    [0.68, 0.27, 0.68],
    [0.27, 0.68, 0.68],
    [0.58, 0.58, 0.57],
    [0.57, 0.58, 0.58],
];

/// A group's arrays.
#[derive(Clone, Copy)]
struct Group<'m> {
    flux: Floats<'m>,
    /// Fluxes at the begin and at the end of a time step, by octant, cell and angle.
    begin: Floats<'m>,
    end: Floats<'m>,
    /// Fluxes between cells in directions y and z.
    faces_y: Floats<'m>,
    faces_z: Floats<'m>,
}

/// Coordinates in an octant's direction.
fn along(is_back: bool) -> impl Iterator<Item = usize> {
    (0..EDGE).map(move |at| if is_back { EDGE - 1 - at } else { at })
}

impl Group<'_> {
    fn sweep(&self, octant: usize) {
        for (faces, count) in [(self.faces_y, EDGE), (self.faces_z, EDGE * EDGE)] {
            faces.part(0..count * ANGLES).fill(core::iter::repeat(0.0));
        }
        for z in along(octant & 4 != 0) {
            self.faces_y.fill(core::iter::repeat(0.0));
            for y in along(octant & 2 != 0) {
                let mut faces_x = [0.0; ANGLES];
                for x in along(octant & 1 != 0) {
                    let cell = (z * EDGE + y) * EDGE + x;
                    let at = (octant * CELLS + cell) * ANGLES;
                    self.pass(cell, at, &mut faces_x, x * ANGLES, (y * EDGE + x) * ANGLES);
                }
            }
        }
    }

    /// Passes a cell, by the diamond scheme.
    fn pass(&self, cell: usize, at: usize, x: &mut [f64; ANGLES], y: usize, z: usize) {
        let mut flux = 0.0;
        for (angle, (face, [mu, eta, xi])) in x.iter_mut().zip(COSINES).enumerate() {
            let [from_y, from_z] = [self.faces_y.get(y + angle), self.faces_z.get(z + angle)];
            let before = self.begin.get(at + angle);
            let sum = SOURCE + mu * *face + eta * from_y + xi * from_z + STEP * before;
            let mean = sum / (SIGMA + mu + eta + xi + STEP);
            *face = 2.0 * mean - *face;
            self.faces_y.set(y + angle, 2.0 * mean - from_y);
            self.faces_z.set(z + angle, 2.0 * mean - from_z);
            self.end.set(at + angle, 2.0 * mean - before);
            flux += mean;
        }
        self.flux.add(cell, flux / (ANGLES * OCTANTS) as f64);
    }
}

/// Sweeps all groups; the mean flux of the first cell and the last one. A round is a time step.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let mut groups = [(); GROUPS].map(|()| {
        let arena = &mut stage.arena;
        Group {
            flux: arena.floats(CELLS),
            begin: arena.floats(OCTANTS * CELLS * ANGLES),
            end: arena.floats(OCTANTS * CELLS * ANGLES),
            faces_y: arena.floats(EDGE * ANGLES),
            faces_z: arena.floats(EDGE * EDGE * ANGLES),
        }
    });
    let own: Range<usize> = stage.team.part(GROUPS);
    for group in &groups[own.clone()] {
        for array in [group.begin, group.end, group.flux] {
            array.fill(core::iter::repeat(0.0));
        }
    }
    stage.begin();
    for _ in 0..stage.rounds {
        for group in &mut groups[own.clone()] {
            group.flux.fill(core::iter::repeat(0.0));
            (0..OCTANTS).for_each(|octant| group.sweep(octant));
            (group.begin, group.end) = (group.end, group.begin);
        }
        stage.team.wait();
    }
    let flux = groups[own].iter().map(|group| {
        let [first, last] = [group.flux.get(0), group.flux.get(CELLS - 1)];
        // By symmetry both corners are equal.
        (first + last) / 2.0 + (first - last).abs()
    });
    stage.team.sum(flux.sum()) / GROUPS as f64
}
