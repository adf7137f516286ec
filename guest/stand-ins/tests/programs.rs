//! The programs compute what they claim to, alone and with several processes.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use poorwill_stand_ins::{
    Arena, Map, NARROW, PROGRAMS, Stage, Team, WIDE, distance, is_settled, named,
};

struct Memory {
    wide: Vec<AtomicU64>,
    narrow: Vec<AtomicU32>,
}

impl Memory {
    fn new() -> Self {
        Memory {
            wide: (0..WIDE).map(|_| AtomicU64::new(0)).collect(),
            narrow: (0..NARROW).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn arena(&self) -> Arena<'_> {
        Arena::new(&self.wide, &self.narrow)
    }
}

/// The result of a program after these rounds, which all processes share.
fn result(name: &str, processes: usize, rounds: u64) -> f64 {
    let program = named(name).expect("a program");
    let memory = Memory::new();
    let results: Vec<f64> = thread::scope(|scope| {
        let start = |_| {
            let stage = || Stage::new(&memory.wide, &memory.narrow, processes, rounds, || ());
            scope.spawn(move || program(stage()))
        };
        let threads: Vec<_> = (0..processes).map(start).collect();
        let results = threads.into_iter().map(|thread| thread.join());
        results.map(|result| result.expect("no panic")).collect()
    });
    assert!(results.iter().all(|one| one == &results[0]), "{results:?}");
    results[0]
}

#[test]
fn conjugate_gradients_solve_the_system() {
    let start = result("cg", 1, 1);
    let (one, three) = (result("cg", 1, 38), result("cg", 3, 38));
    assert!(one < 1e-9 * start && one > 0.0, "{one:e} after {start:e}");
    assert!((one - three).abs() < 1e-3 * one, "{one:e}, {three:e}");
}

#[test]
fn each_cycle_of_multigrid_reduces_the_residual() {
    let after = [1, 2, 3].map(|cycles| result("multigrid", 1, cycles));
    assert!(after[0] < 0.1 && after[1] < after[0] / 20.0, "{after:?}");
    assert!(after[2] < after[1] / 20.0, "{after:?}");
    let three = result("multigrid", 3, 2);
    assert!(
        (after[1] - three).abs() < 1e-6 * three,
        "{after:?}, {three}"
    );
}

#[test]
fn a_sweep_is_symmetric_and_bounded() {
    // The flux grows with time, to less than that of an endless medium.
    let after = [1, 3, 12].map(|steps| result("sweep", 1, steps));
    let endless = 1.0 / 1.5;
    assert!(
        after[0] > 0.05 && after[0] < after[1] && after[1] < after[2],
        "{after:?}"
    );
    assert!(after[2] < endless, "{after:?}");
    let three = result("sweep", 3, 3);
    assert!((after[1] - three).abs() < 1e-12, "{after:?}, {three}");
}

#[test]
fn pricing_ends_with_the_least_potentials() {
    let memory = Memory::new();
    assert!(is_settled(memory.arena()));
    // Cheaper arcs lower potentials.
    assert!(result("arcs", 1, 30) < result("arcs", 1, 0));
}

/// Distances from a cell, by Dijkstra's algorithm without an estimate.
fn distances(map: &Map<'_>, start: usize, cells: usize) -> Vec<Option<u64>> {
    let mut all = vec![None; cells];
    let mut open = BinaryHeap::from([Reverse((0, start))]);
    while let Some(Reverse((cost, cell))) = open.pop() {
        if all[cell].is_some() {
            continue;
        }
        all[cell] = Some(cost);
        for (next, more) in map.neighbours(cell) {
            open.push(Reverse((cost + more, next)));
        }
    }
    all
}

#[test]
fn paths_are_the_cheapest() {
    let memory = Memory::new();
    let mut map = Map::new(&mut memory.arena());
    for start in [300, 131_328] {
        let all = distances(&map, start, 512 * 512);
        let mut found = 0;
        for goal in (0..all.len()).step_by(20_011) {
            let length = distance(&mut map, start, goal);
            found += u32::from(length.is_some());
            // No path enters a wall, and Dijkstra's enter none.
            assert_eq!(length, all[goal], "from {start} to {goal}");
        }
        assert!(found > 8, "{found} paths");
    }
}

#[test]
fn leapfrogs_return_to_their_start() {
    let halfway = result("leapfrog", 1, 1);
    assert!(halfway > 1e-4, "it moves: {halfway}");
    let back = result("leapfrog", 1, 40);
    assert!(back < 1e-9, "{back:e}");
}

#[test]
fn winds_and_mixing_conserve_what_they_carry() {
    let kept = result("columns", 1, 10);
    assert!((kept - 1.0).abs() < 1e-12, "{kept}");
}

#[test]
fn rows_of_an_assembled_laplacian_have_no_sum() {
    for rounds in [1, 3] {
        let worst = result("elements", 1, rounds);
        assert!(worst < 1e-10 && worst > 0.0, "{worst:e}");
    }
}

#[test]
fn streams_copy_scale_and_add() {
    for (name, sum) in [
        ("streamcopy", 1.0 + 2.0 + 1.0),
        ("streamscale", 1.0 + 12.0 + 4.0),
        ("streamadd", 1.0 + 2.0 + 3.0),
        ("streamtriad", 14.0 + 2.0 + 4.0),
    ] {
        for processes in [1, 3] {
            assert_eq!(result(name, processes, 2), sum, "{name}");
        }
    }
}

/// Counts marks.
static MARKS: AtomicU32 = AtomicU32::new(0);

fn count_mark() {
    MARKS.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn one_process_executes_the_mark_when_all_are_prepared() {
    let memory = Memory::new();
    let program = named("streamcopy").expect("a program");
    thread::scope(|scope| {
        for _ in 0..4 {
            let stage = || Stage::new(&memory.wide, &memory.narrow, 4, 1, count_mark);
            scope.spawn(move || program(stage()));
        }
    });
    assert_eq!(MARKS.load(Ordering::SeqCst), 1);
    // The last number that the last process prepared.
    let last = memory.wide[Team::WORDS + (3 << 20) - 1].load(Ordering::SeqCst);
    assert_eq!(f64::from_bits(last), 1.0, "copied from the first array");
}

#[test]
fn each_program_has_a_name_of_its_own() {
    let names: Vec<_> = PROGRAMS.iter().map(|(name, _)| *name).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert!(named("mcf").is_none());
}
