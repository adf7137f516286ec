//! Reads of `time`, `cycle` and `instret`, which machine mode may have to emulate.
//!
//! On the command line: `count=N` reads of each, and `most=N` instructions that a read may
//! take at most. For the latter QEMU must count instructions (`-icount`), so that `time` is not the
//! clock's.

use crate::{check, clock, machine::Machine, read_csr, say};

/// How far the clocks may be apart, in ns: they are not read at the same time.
const APART_NS: u64 = 50_000_000;

pub(super) fn run(machine: &Machine) {
    let most = machine.number("most", 0);
    if most > 0 {
        measure(most);
    }
    let count = machine.number("count", 1_000_000);
    let began = clocks(machine);
    let longest = [
        longest_step(count, || read_csr!("cycle")),
        longest_step(count, || read_csr!("time")),
        longest_step(count, || read_csr!("instret")),
    ];
    let ended = clocks(machine);
    let [time, clock] = [0, 1].map(|which| ended[which] - began[which]);
    say!("counters: count={count} longest_steps={longest:?} time_ns={time} clock_ns={clock}");
    check!(
        most > 0 || machine.clock.is_none() || time.abs_diff(clock) < APART_NS + clock / 10,
        "time went on by {time} ns, the clock by {clock} ns"
    );
}

/// Checks that the counter never goes back or stands, and returns its longest step. `time` may
/// stand between two reads.
fn longest_step(count: usize, read: impl Fn() -> usize) -> usize {
    let (mut before, mut longest, mut back) = (read(), 0, 0);
    let first = before;
    for _ in 0..count {
        let now = read();
        match now.checked_sub(before) {
            Some(step) => longest = longest.max(step),
            None => back += 1,
        }
        before = now;
    }
    check!(back == 0, "a counter went back {back} times");
    check!(before > first, "a counter stands at {first}");
    longest
}

/// `time` and the real-time clock, in ns.
fn clocks(machine: &Machine) -> [u64; 2] {
    let ticks = read_csr!("time") as u64;
    let time = u128::from(ticks) * 1_000_000_000 / u128::from(machine.timebase);
    [
        u64::try_from(time).unwrap_or(u64::MAX),
        machine.clock.map_or(0, clock::read),
    ]
}

/// Counts the instructions of a read of `time`, machine mode's included.
fn measure(most: usize) {
    let [first, second, third] = read_around();
    // Between the first two lies one read of `instret`, between the others one of `time`, too.
    let [instret, both] = [second - first, third - second];
    let time = both.wrapping_sub(instret);
    say!("counters: instructions of a read: instret {instret}, time {time}");
    check!(
        (1..=most).contains(&time) && instret <= most,
        "a read takes more than {most} instructions"
    );
}

fn read_around() -> [usize; 3] {
    let (first, second, third): (usize, usize, usize);
    // SAFETY: reads of counters change no state.
    unsafe {
        core::arch::asm!(
            "csrr {first}, instret",
            "csrr {second}, instret",
            "csrr {time}, time",
            "csrr {third}, instret",
            first = out(reg) first,
            second = out(reg) second,
            third = out(reg) third,
            time = out(reg) _,
        );
    }
    [first, second, third]
}
