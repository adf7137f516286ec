//! Stand-ins: small programs with the access patterns of benchmarks that no package has, and STREAM.
//! `docs/memory.md` lists which one stands for which benchmark.
//!
//! The processes of a program share one mapped file, whose words are atomic. Loads and stores of
//! them are ordinary instructions; processes meet at barriers.
#![no_std]
#![forbid(unsafe_code)]

mod arcs;
mod astar;
mod cg;
mod columns;
mod elements;
mod leapfrog;
mod memory;
mod multigrid;
mod random;
mod stream;
mod sweep;
mod team;

use core::sync::atomic::{AtomicU32, AtomicU64};

pub use arcs::is_settled;
pub use astar::{Map, distance};
pub use memory::{Arena, Floats, Numbers};
pub use team::Team;

/// Words of 64 and of 32 bits that each program may use.
pub const WIDE: usize = 6 << 20;
/// See [`WIDE`].
pub const NARROW: usize = 2 << 20;

/// What a program runs on.
#[derive(Debug)]
pub struct Stage<'m> {
    /// Its processes.
    pub team: Team<'m>,
    /// Its memory, which is zero.
    pub arena: Arena<'m>,
    /// Number of rounds after the mark. What a round is differs by program.
    pub rounds: u64,
    /// Executes the mark, at which a trace may begin.
    pub mark: fn(),
}

impl<'m> Stage<'m> {
    /// A stage on this memory, for one of `processes` processes.
    #[must_use]
    pub fn new(
        wide: &'m [AtomicU64],
        narrow: &'m [AtomicU32],
        processes: usize,
        rounds: u64,
        mark: fn(),
    ) -> Self {
        let (control, rest) = wide.split_at(Team::WORDS.min(wide.len()));
        Stage {
            team: Team::join(control, processes),
            arena: Arena::new(rest, narrow),
            rounds,
            mark,
        }
    }

    /// Ends the preparation: one process executes the mark, after all are prepared.
    fn begin(&self) {
        self.team.wait();
        if self.team.is_first() {
            (self.mark)();
        }
        self.team.wait();
    }
}

/// A program: runs on its stage, and returns a number that depends on its results.
pub type Program = fn(Stage<'_>) -> f64;

/// All programs, by their names.
pub const PROGRAMS: &[(&str, Program)] = &[
    ("arcs", arcs::run),
    ("astar", astar::run),
    ("cg", cg::run),
    ("columns", columns::run),
    ("elements", elements::run),
    ("leapfrog", leapfrog::run),
    ("multigrid", multigrid::run),
    ("streamadd", stream::add),
    ("streamcopy", stream::copy),
    ("streamscale", stream::scale),
    ("streamtriad", stream::triad),
    ("sweep", sweep::run),
];

/// The program of that name.
#[must_use]
pub fn named(name: &str) -> Option<Program> {
    let found = PROGRAMS.iter().find(|(known, _)| *known == name);
    found.map(|(_, program)| *program)
}
