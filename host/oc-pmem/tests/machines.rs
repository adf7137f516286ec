//! Harts on machines: exact times of short runs, and properties of all machines.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use poorwill_oc_pmem::{Kind, Machine, Outcome, Parameters, Request, Source, Time, run};
use proptest::prelude::*;

/// Requests from lists.
#[derive(Clone, Debug, Default)]
struct Lists {
    requests: Vec<VecDeque<Request>>,
    instructions: Vec<u64>,
}

impl Lists {
    fn new(harts: Vec<Vec<Request>>) -> Self {
        let sum = |list: &Vec<Request>| list.iter().map(|one| one.instructions).sum();
        Lists {
            instructions: harts.iter().map(sum).collect(),
            requests: harts.into_iter().map(VecDeque::from).collect(),
        }
    }
}

impl Source for Lists {
    fn harts(&self) -> usize {
        self.requests.len()
    }

    fn next(&mut self, hart: usize) -> Option<Request> {
        self.requests[hart].pop_front()
    }

    fn instructions(&self, hart: usize) -> u64 {
        self.instructions[hart]
    }
}

fn request(kind: Kind, line: u32, instructions: u64) -> Request {
    Request {
        kind,
        line,
        instructions,
    }
}

fn set(texts: &[&str]) -> Parameters {
    let mut parameters = Parameters::default();
    for text in texts {
        parameters.set(text).expect("a value");
    }
    parameters
}

fn time(machine: Machine, parameters: &Parameters, requests: &[Request]) -> Outcome {
    run(
        &mut Lists::new(vec![requests.to_vec()]),
        machine,
        parameters,
    )
}

/// A gigahertz and no link: an instruction takes a nanosecond.
const PLAIN: [&str; 2] = ["clock=1", "link=0"];

#[test]
fn a_load_holds_back_at_the_end_of_the_window() {
    let parameters = set(&PLAIN);
    // The load is instruction 10, and memory answers 60 ns later. Instruction 74 would need it.
    let mut requests = vec![request(Kind::Load, 0, 10), request(Kind::Fence, 0, 1)];
    assert_eq!(
        time(Machine::Dram, &parameters, &requests).time,
        Time(70_000)
    );
    requests[1] = request(Kind::WriteBack, 1, 70);
    assert_eq!(
        time(Machine::Dram, &parameters, &requests).time,
        Time(80_000)
    );
    let parameters = set(&["clock=1", "link=0", "window=5"]);
    assert_eq!(
        time(Machine::Dram, &parameters, &requests).time,
        // It waits at instruction 15 until 70 ns, and has 65 to go.
        Time(135_000)
    );
    // A store miss holds nothing back.
    requests[0] = request(Kind::Store, 0, 10);
    assert_eq!(
        time(Machine::Dram, &parameters, &requests).time,
        Time(80_000)
    );
    let parameters = set(&["clock=1", "link=0", "window=0"]);
    assert_eq!(
        time(Machine::Dram, &parameters, &requests).time,
        Time(140_000)
    );
}

#[test]
fn a_third_miss_waits_for_the_first() {
    let parameters = set(&PLAIN);
    let requests = [
        request(Kind::Store, 0, 1),
        request(Kind::Store, 1, 1),
        request(Kind::Store, 2, 1),
    ];
    // At 1, 2 and 61 ns, each for 60.
    assert_eq!(
        time(Machine::Dram, &parameters, &requests).time,
        Time(121_000)
    );
}

#[test]
fn a_read_after_a_write_waits_unless_it_is_rebuilt() {
    let requests = [request(Kind::WriteBack, 0, 1), request(Kind::Fetch, 24, 1)];
    let of = |machine, more: &[&str]| {
        let all = [&PLAIN[..], &["randomise=off", "gap=0"], more].concat();
        time(machine, &set(&all), &requests).time
    };
    // Line 24 lies in the same group. Its partner is written, too, and a rebuild would be as late.
    assert_eq!(of(Machine::LightPc, &[]), Time(1_000 + 246_000 + 66_000));
    assert_eq!(
        of(Machine::LightPc, &["parity=free"]),
        Time(2_000 + 66_000 + 1_000)
    );
    assert_eq!(
        of(Machine::LightPc, &["parity=halves"]),
        Time(2_000 + 66_000 + 1_000)
    );
    assert_eq!(
        of(Machine::LightPc, &["parity=free", "rebuild=off"]),
        Time(1_000 + 246_000 + 66_000)
    );
    assert_eq!(of(Machine::Group, &[]), Time(1_000 + 246_000 + 66_000));
    assert_eq!(
        of(Machine::Wide, &[]),
        Time(1_000 + 66_000 + 246_000 + 66_000)
    );
    // The written line itself is in the row buffer.
    let same = [requests[0], request(Kind::Fetch, 0, 1)];
    let parameters = set(&["clock=1", "link=0"]);
    assert_eq!(time(Machine::LightPc, &parameters, &same).time, Time(2_000));
}

#[test]
fn a_flush_is_waited_for_at_the_fence() {
    let parameters = set(&["clock=1", "link=0", "gap=0"]);
    let requests = [request(Kind::Flush, 0, 1), request(Kind::Fence, 0, 1)];
    assert_eq!(
        time(Machine::LightPc, &parameters, &requests).time,
        Time(247_000)
    );
    let outcome = time(Machine::LightPc, &parameters, &requests[1..]);
    assert_eq!((outcome.time, outcome.counts.flushes), (Time(1_000), 0));
}

/// Eight harts' requests to random lines: a write for each three reads.
fn traffic() -> Lists {
    let mut state = 7_u64;
    let mut one = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let drawn = state >> 33;
        let kind = match drawn & 3 {
            0 => Kind::WriteBack,
            _ => Kind::Load,
        };
        request(kind, (drawn >> 6) as u32, drawn >> 2 & 63)
    };
    Lists::new((0..8).map(|_| (0..2000).map(&mut one).collect()).collect())
}

/// Each part of the controller has its effect: without it time or wear is another.
#[test]
fn each_part_of_the_controller_changes_its_figure() {
    let of = |texts: &[&str]| run(&mut traffic(), Machine::LightPc, &set(texts));
    let base = of(&[]);
    let (rebuild, early) = (of(&["rebuild=off"]), of(&["early-return=off"]));
    assert!(base.counts.rebuilt > 100 && rebuild.counts.rebuilt == 0);
    assert!(rebuild.read_time() > base.read_time(), "{rebuild:?}");
    assert!(early.time > base.time, "{early:?}");
    let parity = of(&["parity=free"]);
    assert!(parity.counts.programs < base.counts.programs, "{parity:?}");
    assert!(parity.time < base.time, "{parity:?}");
    let still = of(&["gap=0"]);
    assert_eq!(base.counts.moves, base.counts.writes / 100);
    assert_eq!(still.counts.moves, 0);
    assert!(still.counts.programs < base.counts.programs, "{still:?}");
}

/// Two accesses of a bank, and then two of a DIMM, without and with what delays the second one.
#[test]
fn banks_recover_and_share_a_channel() {
    let after = |more: &[&str], second| {
        let parameters = set(&[&PLAIN[..], &["dimms=1", "window=128"], more].concat());
        let requests = [request(Kind::Load, 0, 0), request(Kind::Load, second, 0)];
        time(Machine::Dram, &parameters, &requests).time
    };
    let (same, other) = (16, 1);
    assert_eq!(after(&[], same), Time(120_000));
    assert_eq!(after(&["recovery=20"], same), Time(140_000));
    assert_eq!(after(&[], other), Time(60_000));
    assert_eq!(after(&["recovery=20"], other), Time(60_000));
    assert_eq!(after(&["channel=5"], other), Time(65_000));
    assert_eq!(after(&["refresh=100"], other), Time(160_000));
}

fn requests() -> impl Strategy<Value = Vec<Vec<Request>>> {
    let kind = prop_oneof![
        4 => Just(Kind::Load),
        2 => Just(Kind::Store),
        1 => Just(Kind::Fetch),
        3 => Just(Kind::WriteBack),
        1 => Just(Kind::Flush),
        1 => Just(Kind::Fence),
    ];
    let one = (kind, 0..4000_u32, 0..200_u64)
        .prop_map(|(kind, line, instructions)| request(kind, line, instructions));
    proptest::collection::vec(proptest::collection::vec(one, 0..300), 1..5)
}

proptest! {
    /// Each request is made once, no hart is faster than its instructions, and slower memory makes
    /// no machine of one hart faster.
    #[test]
    fn requests_are_conserved(harts in requests(), clock in prop_oneof![Just("clock=0.4"), Just("clock=1.6")]) {
        let lists = Lists::new(harts.clone());
        let sum = |kinds: &[Kind]| {
            let all = harts.iter().flatten();
            all.filter(|one| kinds.contains(&one.kind)).count() as u64
        };
        for (name, machine) in Machine::ALL {
            let parameters = set(&[clock]);
            let outcome = run(&mut lists.clone(), machine, &parameters);
            prop_assert_eq!(outcome.requests, harts.iter().map(Vec::len).sum::<usize>() as u64);
            prop_assert_eq!(outcome.counts.reads, sum(&[Kind::Load, Kind::Store, Kind::Fetch]));
            prop_assert_eq!(outcome.counts.writes, sum(&[Kind::WriteBack, Kind::Flush]));
            for (end, instructions) in outcome.harts.iter().zip(&lists.instructions) {
                prop_assert!(*end >= parameters.cycle() * *instructions, "{}", name);
            }
            let again = run(&mut lists.clone(), machine, &parameters);
            prop_assert_eq!(again, outcome, "a run repeats");
        }
    }
}
