//! Four small programs run natively, and then, after a wake, as the weak hart's translated code. Their
//! inputs differ. The case compares results, and the instructions of a round.
//!
//! QEMU must count instructions: one takes 1 ns. `time` then has the core's own instructions on both
//! sides, machine mode's included.
//!
//! On the command line: `rounds=N` of each measurement; `most=N` thousandths that the geometric mean of
//! the ratios may reach; `least=N` likewise.

#![allow(
    clippy::cast_possible_truncation,
    reason = "programs take the lower bits of numbers, as kernels do"
)]

mod chain;
mod format;
mod glob;
mod program;
mod ring;

use self::program::Program;
use super::lent;
use crate::{
    arch::{
        self,
        kernel_space::{self, IN_ORDER, KernelSpace},
    },
    check,
    machine::Machine,
    random::Random,
    say,
};

/// The aim of the geometric mean, in thousandths.
const AIM: u32 = 1450;

/// The first inputs let the weak hart translate; the others trained nothing.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Results of the measured runs.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    digest: u64,
    ticks: u64,
    rounds: u64,
}

type Run = fn(&KernelSpace, usize) -> Measured;

const PROGRAMS: [(&str, Run); 4] = [
    of::<ring::Ring>(),
    of::<glob::Glob>(),
    of::<chain::Chain>(),
    of::<format::Format>(),
];

const fn of<P: Program>() -> (&'static str, Run) {
    (P::NAME, measure::<P>)
}

/// A program, and the digest of its results.
struct Bench<P> {
    program: P,
    digest: u64,
}

/// Runs the rounds, and returns their ticks.
extern "C" fn timed<P: Program>(bench: &mut Bench<P>, rounds: usize) -> u64 {
    bench.program.settle();
    let mut digest = bench.digest;
    let began = arch::time();
    for round in 0..rounds {
        digest = digest.rotate_left(9) ^ bench.program.round(round);
    }
    let ticks = arch::time() - began;
    bench.digest = digest;
    ticks
}

/// Runs a program with all inputs, and measures those that trained nothing.
fn measure<P: Program>(space: &KernelSpace, rounds: usize) -> Measured {
    let mut measured = Measured::default();
    for (number, seed) in SEEDS.into_iter().enumerate() {
        let program = P::begin(&mut Random(seed), space);
        let digest = measured.digest;
        let mut bench = Bench { program, digest };
        let rounds = rounds << (number / 2);
        let ticks = space.call(timed::<P>, &mut bench, rounds);
        measured.digest = bench.digest;
        if number > 0 {
            measured.ticks += ticks;
            measured.rounds += rounds as u64;
        }
    }
    measured
}

fn measure_all(rounds: usize) -> [Measured; PROGRAMS.len()] {
    kernel_space::with(IN_ORDER, |space| {
        PROGRAMS.map(|(_, run)| run(space, rounds))
    })
}

/// Checks that an instruction takes 1 ns.
fn check_time(tick_ns: u64) {
    const ROUNDS: usize = 500_000;
    let began = arch::time();
    arch::spin(ROUNDS);
    let ns = (arch::time() - began) * tick_ns;
    check!(
        ns.abs_diff(2 * ROUNDS as u64) <= 2 * tick_ns,
        "{} instructions take {ns} ns: QEMU must count (-icount shift=0)",
        2 * ROUNDS
    );
}

pub(super) fn run(machine: &Machine) {
    let rounds = machine.number("rounds", 4000);
    let tick_ns = 1_000_000_000 / machine.timebase;
    check_time(tick_ns);
    let native = measure_all(rounds);
    lent::sleep_once(machine, 1);
    let translated = measure_all(rounds);
    lent::give_back();
    let mut product = 1;
    for ((name, _), (native, translated)) in PROGRAMS.iter().zip(native.iter().zip(&translated)) {
        check!(
            native.digest == translated.digest,
            "{name}: translated code has other results"
        );
        let of_round = |measured: &Measured| measured.ticks * tick_ns / measured.rounds;
        let ratio = u128::from(translated.ticks * 1000 / native.ticks);
        product *= ratio;
        say!(
            "translated {name}: native={} translated={} thousandths={ratio}",
            of_round(native),
            of_round(translated)
        );
    }
    let mean = product.isqrt().isqrt();
    say!("translated mean: thousandths={mean} aim={AIM}");
    let (least, most) = (machine.number("least", 1001), machine.number("most", 0));
    check!(
        (least as u128..=most as u128).contains(&mean),
        "the geometric mean is {mean} thousandths, not {least} to {most}"
    );
}
