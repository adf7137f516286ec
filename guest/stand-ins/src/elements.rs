//! Assembly of finite elements. Access: elements in random order, with a search in the rows of a
//! sparse matrix for each pair of their nodes.

use crate::Stage;
use crate::memory::{Arena, Floats, Indices};
use crate::random::Random;

/// Elements and nodes of an edge.
const ELEMENTS: usize = 24;
const NODES: usize = ELEMENTS + 1;
const ROWS: usize = NODES * NODES * NODES;
const CELLS: usize = ELEMENTS * ELEMENTS * ELEMENTS;
/// Entries of a row, nodes and quadrature points of an element.
const MOST: usize = 27;
const CORNERS: usize = 8;

/// The mesh, its matrix, and a function on its nodes.
struct Mesh<'m> {
    /// The nodes of each element, whose numbers are random, as after refinements.
    corners: Indices<'m>,
    /// Each row's columns, in order; unused entries are at its end.
    columns: Indices<'m>,
    values: Floats<'m>,
    function: Floats<'m>,
}

/// Products of the shape functions' gradients, at a quadrature point.
type Products = [[f64; CORNERS]; CORNERS];

/// The sign of a corner in a direction.
fn sign(corner: usize, direction: usize) -> f64 {
    if corner >> direction & 1 == 0 {
        -1.0
    } else {
        1.0
    }
}

/// The gradient of a corner's shape function at a quadrature point, of a cube from -1 to 1.
fn gradient(corner: usize, point: usize) -> [f64; 3] {
    const GAUSS: f64 = 0.577_350_269_189_625_8;
    let factor = |direction| (1.0 + sign(corner, direction) * sign(point, direction) * GAUSS) / 2.0;
    [0, 1, 2].map(|direction| {
        let others = (0..3).filter(|other| *other != direction);
        sign(corner, direction) / 2.0 * others.map(factor).product::<f64>()
    })
}

fn products(point: usize) -> Products {
    let mut all = [[0.0; CORNERS]; CORNERS];
    for (one, row) in all.iter_mut().enumerate() {
        for (other, value) in row.iter_mut().enumerate() {
            let pairs = gradient(one, point).into_iter().zip(gradient(other, point));
            *value = pairs.map(|(one, other)| one * other).sum();
        }
    }
    all
}

impl<'m> Mesh<'m> {
    fn new(arena: &mut Arena<'m>) -> Self {
        let numbers = arena.indices(ROWS);
        let order = arena.indices(CELLS);
        let mesh = Mesh {
            corners: arena.indices(CELLS * CORNERS),
            columns: arena.indices(ROWS * MOST),
            values: arena.floats(ROWS * MOST),
            function: arena.floats(ROWS),
        };
        let mut random = Random(7);
        for (list, count) in [(numbers, ROWS), (order, CELLS)] {
            (0..count).for_each(|at| list.set(at, at));
            for at in (1..count).rev() {
                let other = random.below(at + 1);
                let (one, two) = (list.get(at), list.get(other));
                list.set(at, two);
                list.set(other, one);
            }
        }
        (0..ROWS * MOST).for_each(|at| mesh.columns.set(at, usize::MAX));
        for at in 0..CELLS {
            let cell = order.get(at);
            let [x, y, z] = [
                cell % ELEMENTS,
                cell / ELEMENTS % ELEMENTS,
                cell / ELEMENTS / ELEMENTS,
            ];
            for corner in 0..CORNERS {
                let [x, y, z] = [x + (corner & 1), y + (corner >> 1 & 1), z + (corner >> 2)];
                let node = numbers.get((z * NODES + y) * NODES + x);
                mesh.corners.set(at * CORNERS + corner, node);
            }
        }
        mesh.find_columns();
        mesh
    }

    /// Enters the columns of each row in order.
    fn find_columns(&self) {
        for cell in 0..CELLS {
            for row in self.nodes(cell) {
                for column in self.nodes(cell) {
                    let range = row * MOST..(row + 1) * MOST;
                    let place = (self.columns.iter(range)).position(|known| known >= column);
                    let place = row * MOST + place.unwrap_or(MOST - 1);
                    if self.columns.get(place) == column {
                        continue;
                    }
                    for later in (place + 1..(row + 1) * MOST).rev() {
                        self.columns.set(later, self.columns.get(later - 1));
                    }
                    self.columns.set(place, column);
                }
            }
        }
    }

    fn nodes(&self, cell: usize) -> impl Iterator<Item = usize> {
        self.corners.iter(cell * CORNERS..(cell + 1) * CORNERS)
    }

    /// The place of an entry, by halves.
    fn place(&self, row: usize, column: usize) -> usize {
        let (mut low, mut high) = (row * MOST, (row + 1) * MOST);
        while high - low > 1 {
            let middle = low.midpoint(high);
            match self.columns.get(middle) <= column {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    /// Adds an element: the coefficient depends on the function at its corners.
    fn assemble(&self, cell: usize, products: &[Products; CORNERS]) {
        let mut nodes = [0; CORNERS];
        nodes
            .iter_mut()
            .zip(self.nodes(cell))
            .for_each(|(to, node)| *to = node);
        let at_nodes = nodes.map(|node| self.function.get(node));
        let mut local = [[0.0; CORNERS]; CORNERS];
        for (products, value) in products.iter().zip(at_nodes) {
            let coefficient = 1.0 + value * value;
            for (row, factors) in local.iter_mut().zip(products) {
                for (sum, factor) in row.iter_mut().zip(factors) {
                    *sum += coefficient * factor;
                }
            }
        }
        for (row, values) in nodes.into_iter().zip(local) {
            for (column, value) in nodes.into_iter().zip(values) {
                self.values.add(self.place(row, column), value);
            }
        }
    }

    /// A step of Jacobi's iteration with a right side of ones.
    fn relax(&self) {
        for row in 0..ROWS {
            let range = row * MOST..(row + 1) * MOST;
            let pairs = self.values.part(range.clone()).iter();
            let mut sum = 1.0;
            let mut own = 1.0;
            for (value, column) in pairs.zip(self.columns.iter(range)) {
                match column {
                    column if column == row => own = value,
                    column if column < ROWS => sum -= value * self.function.get(column),
                    _ => {}
                }
            }
            self.function.set(row, 0.5 * sum / own);
        }
    }
}

/// Assembles the matrix for a changing coefficient; the greatest sum of a row, which is an error of
/// rounding. A round is an assembly and a step of an iteration.
pub(crate) fn run(mut stage: Stage<'_>) -> f64 {
    let mesh = Mesh::new(&mut stage.arena);
    let mut point = 0;
    let products = [(); CORNERS].map(|()| {
        point += 1;
        products(point - 1)
    });
    stage.begin();
    for round in 0..stage.rounds {
        if round > 0 {
            mesh.relax();
        }
        mesh.values.fill(core::iter::repeat(0.0));
        (0..CELLS).for_each(|cell| mesh.assemble(cell, &products));
    }
    let sums = (0..ROWS).map(|row| {
        let range = row * MOST..(row + 1) * MOST;
        mesh.values.part(range).iter().sum::<f64>().abs()
    });
    sums.fold(0.0, f64::max)
}
