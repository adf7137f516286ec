//! Dead devices: parity gives their half of a line at its cost, or the line is contained.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use poorwill_oc_pmem::{Counts, Fault, InOrder, Kind, LightPc, Machine, Memory, Parameters};
use poorwill_oc_pmem::{Request, Source, Time, Unit, run};
use proptest::prelude::*;

const DIMMS: usize = 4;
const GROUPS: usize = 2;

/// Four DIMMs of two groups: device 0 and 1 are group 0, whose parity is in devices 4 and 5.
fn set(texts: &[&str]) -> Parameters {
    let common = "dimms=4 groups=2 memory=1 gap=0 randomise=off link=0 dram=100";
    let mut parameters = Parameters::default();
    for text in common.split(' ').chain(texts.iter().copied()) {
        parameters.set(text).expect("a value");
    }
    parameters
}

/// Without wear levelling neighbouring lines lie on different DIMMs.
fn group_of(line: u32) -> usize {
    let line = line as usize;
    line % DIMMS * GROUPS + line / DIMMS % GROUPS
}

/// The group with the parity of a group's lines.
fn partner_of(group: usize) -> usize {
    (group + GROUPS) % (DIMMS * GROUPS)
}

/// A read of an idle memory takes 110 ns.
const READ: Time = Time(110_000);

/// A line is put together in a cycle, 2.5 ns.
const JOIN: Time = Time(2_500);

fn outcome(counts: Counts) -> (u64, u64) {
    (counts.regenerated, counts.contained)
}

#[test]
fn a_dead_devices_half_takes_parity_and_a_cycle() {
    for parity in ["parity=striped", "parity=halves", "parity=free"] {
        let mut memory = LightPc::new(&set(&[parity, "dead=1"]));
        assert_eq!(memory.read(Time::ZERO, 0), READ + JOIN, "{parity}");
        let later = Time(1_000_000);
        assert_eq!(memory.read(later, 1), later + READ, "{parity}");
        assert_eq!(outcome(memory.counts()), (1, 0), "{parity}");
    }
}

#[test]
fn a_half_waits_for_the_devices_with_its_parity() {
    // Line 1 lies in the group with the parity of line 0, which its program occupies for 410 ns. Its own
    // parity is elsewhere.
    for (parity, done) in [
        ("parity=striped", Time(410_000) + READ + JOIN),
        ("parity=free", Time(1_000) + READ + JOIN),
    ] {
        let mut memory = LightPc::new(&set(&[parity, "dead=0"]));
        memory.write(Time::ZERO, 1);
        assert_eq!(memory.read(Time(1_000), 0), done, "{parity}");
    }
    // The read of the parity keeps its devices from others.
    let mut memory = LightPc::new(&set(&["dead=0"]));
    memory.read(Time::ZERO, 0);
    assert_eq!(memory.read(Time::ZERO, 1), READ + READ);
}

#[test]
fn two_dead_devices_of_a_stripe_contain_its_lines() {
    let of = |texts: &[&str]| {
        let mut memory = LightPc::new(&set(texts));
        for line in 0..8 {
            memory.read(Time(u64::from(line) * 1_000_000), line);
        }
        outcome(memory.counts())
    };
    // The devices are of one group, or of a group and the one with its parity.
    assert_eq!(of(&["dead=0,1"]), (0, 1));
    assert_eq!(of(&["dead=0,4"]), (1, 1));
    // They are of different stripes.
    assert_eq!(of(&["dead=0,8"]), (2, 0));
    assert_eq!(of(&["dead=0,2"]), (2, 0));
    // In other readings parity is on no device that dies.
    assert_eq!(of(&["parity=free", "dead=0,4"]), (2, 0));
    assert_eq!(of(&["parity=halves", "dead=0,1"]), (0, 1));
    // A lone DIMM has no place for parity.
    assert_eq!(of(&["dimms=1", "dead=0"]), (0, 4));
}

#[test]
fn dead_parity_rebuilds_no_line_that_is_written() {
    let read = |dead: &str| {
        let mut memory = LightPc::new(&set(&[dead]));
        // Group 0 has the parity of line 3, so its program occupies line 0 as well.
        memory.write(Time::ZERO, 3);
        let done = memory.read(Time(1_000), 0);
        assert_eq!(outcome(memory.counts()), (0, 0), "{dead}");
        (done, memory.counts().rebuilt)
    };
    assert_eq!(read("dead=none"), (Time(1_000) + READ + JOIN, 1));
    assert_eq!(read("dead=4"), (Time(410_000) + READ, 0));
}

/// Start-Gap must not make a lost line right by giving it other devices.
#[test]
fn a_moved_line_stays_lost_until_it_is_written() {
    // The last line of memory lies in the last DIMM's last group, devices 14 and 15, and moves first.
    let last = (1 << 14) - 1;
    let parameters = set(&["gap=1", "dead=14,15"]);
    let memories: [Box<dyn Memory>; 2] = [
        Box::new(LightPc::new(&parameters)),
        Box::new(InOrder::pram(&parameters, Unit::Group)),
    ];
    for mut memory in memories {
        memory.read(Time::ZERO, last);
        assert_eq!(memory.counts().contained, 1);
        memory.write(Time(1_000_000), 0);
        let end = memory.flush(Time(1_000_000));
        assert_eq!(memory.counts().moves, 1);
        memory.read(end, last);
        assert_eq!(memory.counts().contained, 2, "its new devices are whole");
        memory.write(end, last);
        let end = memory.flush(end);
        memory.read(end, last);
        assert_eq!(memory.counts().contained, 2, "it was written anew");
    }
}

/// A hart's loads.
struct Loads(Vec<Request>, u64);

impl Loads {
    fn of(lines: &[u32]) -> Self {
        let load = |line: &u32| Request {
            kind: Kind::Load,
            line: *line,
            instructions: 100,
        };
        Loads(
            lines.iter().rev().map(load).collect(),
            100 * lines.len() as u64,
        )
    }
}

impl Source for Loads {
    fn harts(&self) -> usize {
        1
    }

    fn next(&mut self, _hart: usize) -> Option<Request> {
        self.0.pop()
    }

    fn instructions(&self, _hart: usize) -> u64 {
        self.1
    }
}

#[test]
fn each_machine_says_what_became_of_its_data() {
    let of = |machine, dead: &str| {
        let parameters = set(&[dead, "clock=1"]);
        run(&mut Loads::of(&[1, 0, 0]), machine, &parameters).fault()
    };
    for (name, machine) in Machine::ALL {
        assert_eq!(of(machine, "dead=none"), None, "{name}");
        assert_eq!(of(machine, "dead=12"), None, "{name}: no load is there");
        // The first load ends at 210 ns, of which it holds its hart back for 46. LightPC's takes the
        // half of a dead device, and a cycle more.
        let lost = |first| Some(Fault::Contained { reads: 2, first });
        let expected = match machine {
            // It has no PRAM.
            Machine::Dram => [None, None],
            // An access takes all devices of a DIMM. The queue and the SRAM take 135 ns, both ways 180,
            // the DRAM's table 100, PRAM 110, and the link 100.
            Machine::PmemDimm => [0, 0].map(|_: u64| {
                Some(Fault::Contained {
                    reads: 3,
                    first: Time(625_000),
                })
            }),
            Machine::LightPc => [Some(Fault::Regenerated { reads: 2 }), lost(Time(357_000))],
            // They have no parity. Device 4 has a half of the first load's line.
            _ => [
                lost(Time(356_000)),
                Some(Fault::Contained {
                    reads: 3,
                    first: Time(210_000),
                }),
            ],
        };
        let found = ["dead=0", "dead=0,4"].map(|dead| of(machine, dead));
        assert_eq!(found, expected, "{name}");
    }
}

proptest! {
    /// A read is contained exactly if its group has a dead device and its stripe another one; only a
    /// row buffer still has such lines. Each half costs a read and a cycle at least, requests are
    /// conserved, and dead devices of different stripes lose nothing.
    #[test]
    fn a_line_is_lost_only_with_two_devices_of_its_stripe(
        dead in proptest::collection::btree_set(0..2 * DIMMS * GROUPS, 0..=4),
        accesses in proptest::collection::vec((0..64_u32, 0..400_u64, any::<bool>()), 1..200),
    ) {
        let text = dead.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let text = if dead.is_empty() { "none" } else { &text };
        let mut memory = LightPc::new(&set(&[&format!("dead={text}")]));
        let of_group = |group: usize| dead.range(2 * group..2 * group + 2).count();
        let mut groups = BTreeMap::new();
        for group in dead.iter().map(|device| device / 2).collect::<BTreeSet<_>>() {
            groups.insert(group, of_group(group) + of_group(partner_of(group)));
        }
        let (mut now, mut reads, mut writes) = (Time::ZERO, 0, 0);
        for (line, pause, is_write) in accesses {
            now += Time(pause * 1000);
            if is_write {
                writes += 1;
                now = memory.write(now, line);
                continue;
            }
            reads += 1;
            let before = memory.counts();
            let done = memory.read(now, line);
            let after = memory.counts();
            let is_held = after.from_row_buffer > before.from_row_buffer;
            let dead_here = groups.get(&group_of(line)).filter(|_| !is_held);
            let expected = match dead_here {
                None => (0, 0),
                Some(1) => (1, 0),
                Some(_) => (0, 1),
            };
            let found = (after.regenerated - before.regenerated, after.contained - before.contained);
            prop_assert_eq!(found, expected, "line {} of {}", line, text);
            if expected.0 == 1 {
                prop_assert!(done >= now + READ + JOIN, "{:?}", done - now);
            }
        }
        memory.flush(now);
        prop_assert_eq!(memory.waiting(), 0);
        let counts = memory.counts();
        prop_assert_eq!((counts.reads, counts.writes), (reads, writes));
        if groups.values().all(|devices| *devices < 2) {
            prop_assert_eq!(counts.contained, 0);
        }
        prop_assert_eq!(counts.first_contained.is_some(), counts.contained > 0);
    }
}
