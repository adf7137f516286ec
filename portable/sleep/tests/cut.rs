//! A cut whose every step may be the last one: lines of cache that were not written back
//! have reached memory then, or not, or in part.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use poorwill_sleep::cut::fake::FakeRecord;
use poorwill_sleep::cut::{
    CutMemory, CutReason, Found, GoMachine, Layout, Line, Newest, PartEntry, Place, StopMachine,
    discard, find, go, stop,
};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

const HARTS: usize = 3;
const PART_WORDS: usize = 8;
/// The OS's memory, in words of a line each.
const OS_LINES: usize = 4;

/// A line of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Record(usize),
    Part(usize),
    Os(usize),
}

type Words = [u64; PART_WORDS];
type Memory = BTreeMap<At, Words>;
/// What the OS has: its harts and its memory.
type Os = ([u64; HARTS], [Words; OS_LINES]);

/// What memory holds when the power has gone: of the dirty lines, those that `keep` says.
fn lost(machine: &Machine, keep: u64) -> Memory {
    let mut memory = machine.memory.borrow().clone();
    for (number, (at, words)) in machine.dirty.borrow().iter().enumerate() {
        match keep >> (2 * number % 64) & 3 {
            0 => {}
            1 => {
                // Half of its words.
                let line = memory.entry(*at).or_default();
                line[..PART_WORDS / 2].copy_from_slice(&words[..PART_WORDS / 2]);
            }
            _ => {
                memory.insert(*at, *words);
            }
        }
    }
    memory
}

/// A machine with RAM that is persistent, behind a cache.
#[derive(Debug, Default)]
struct Machine {
    memory: RefCell<Memory>,
    dirty: RefCell<Memory>,
    /// What the harts execute.
    harts: RefCell<[u64; HARTS]>,
    /// Steps until the power goes, and what memory it leaves, chosen by the number.
    fuel: Cell<Option<(usize, u64)>>,
    left: RefCell<Option<Memory>>,
    /// One hart does not stop.
    stuck: Cell<Option<u64>>,
    steps: Cell<usize>,
    /// A step that is left out, to see that it is missed.
    mutant: Cell<Option<Mutant>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    NoFlush,
    NoLineWrittenBack(Place),
}

impl Machine {
    /// At a power-on.
    fn new(memory: Memory) -> Self {
        Machine {
            memory: RefCell::new(memory),
            ..Machine::default()
        }
    }

    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        match self.fuel.get() {
            Some((0, _)) | None => {}
            Some((1, keep)) => {
                self.fuel.set(Some((0, keep)));
                *self.left.borrow_mut() = Some(lost(self, keep));
            }
            Some((steps, keep)) => self.fuel.set(Some((steps - 1, keep))),
        }
    }

    fn write(&self, at: At, words: Words) {
        self.dirty.borrow_mut().insert(at, words);
        self.step();
    }

    fn read(&self, at: At) -> Words {
        let dirty = self.dirty.borrow().get(&at).copied();
        let memory = self.memory.borrow().get(&at).copied();
        dirty.or(memory).unwrap_or_default()
    }

    fn clean(&self, at: At) {
        if let Some(words) = self.dirty.borrow_mut().remove(&at) {
            self.memory.borrow_mut().insert(at, words);
        }
        self.step();
    }

    fn write_part(&self, part: usize, sequence: u64, words: Words) {
        self.write(At::Part(part), words);
        let bytes = size_of::<Words>() as u64;
        let digest = self.digest(part, bytes).unwrap();
        self.store(
            Place::Part(part),
            &Line::part(sequence, PartEntry { bytes, digest }),
        );
    }

    fn os(&self) -> Os {
        let memory = std::array::from_fn(|line| self.read(At::Os(line)));
        (*self.harts.borrow(), memory)
    }

    /// The OS runs.
    fn run(&self, seed: u64) {
        self.harts
            .replace(std::array::from_fn(|hart| seed + hart as u64));
        for line in 0..OS_LINES {
            self.write(At::Os(line), [seed ^ line as u64; PART_WORDS]);
        }
    }

    /// The memory that the next power-on finds.
    fn power_off(&self, keep: u64) -> Memory {
        let left = self.left.borrow_mut().take();
        left.unwrap_or_else(|| lost(self, keep))
    }
}

impl CutMemory for Machine {
    fn layout(&self) -> Layout {
        Layout::new(HARTS, 1)
    }

    fn line(&self, place: Place) -> Line {
        let words = self.read(At::Record(self.layout().line_offset(place)));
        Line::read_from_bytes(words.as_bytes()).unwrap()
    }

    fn store(&self, place: Place, line: &Line) {
        let words = Words::read_from_bytes(line.as_bytes()).unwrap();
        self.write(At::Record(self.layout().line_offset(place)), words);
    }

    fn write_back(&self, place: Place) {
        if self.mutant.get() == Some(Mutant::NoLineWrittenBack(place)) {
            return;
        }
        self.clean(At::Record(self.layout().line_offset(place)));
    }

    fn digest(&self, part: usize, bytes: u64) -> Option<u64> {
        let words = self.read(At::Part(part));
        (bytes == size_of::<Words>() as u64).then(|| poorwill_memory::checksum::of_words(&words))
    }
}

impl StopMachine for Machine {
    fn record(&self) -> &impl CutMemory {
        self
    }

    fn gather(&self, sequence: u64) -> Result<(), CutReason> {
        if let Some(hart) = self.stuck.get() {
            return Err(CutReason::HartNotStopped(hart));
        }
        let harts = *self.harts.borrow();
        for (place, context) in harts.into_iter().enumerate() {
            self.write_part(Layout::hart(place), sequence, [context; PART_WORDS]);
        }
        Ok(())
    }

    fn capture(&self, sequence: u64) -> Result<(), CutReason> {
        self.write_part(Layout::SHARED, sequence, [sequence; PART_WORDS]);
        self.write_part(Layout::TREE, sequence, [7; PART_WORDS]);
        Ok(())
    }

    fn quiet(&self, sequence: u64) -> Result<(), CutReason> {
        self.write_part(Layout::DEVICES, sequence, [9; PART_WORDS]);
        self.step();
        Ok(())
    }

    fn ticks(&self) -> u64 {
        17
    }

    fn flush(&self) {
        if self.mutant.get() == Some(Mutant::NoFlush) {
            return;
        }
        let all: Vec<At> = self.dirty.borrow().keys().copied().collect();
        all.into_iter().for_each(|at| self.clean(at));
    }
}

impl GoMachine for Machine {
    type State = [u64; HARTS];

    fn record(&self) -> &impl CutMemory {
        self
    }

    fn check(&self) -> Result<Self::State, CutReason> {
        self.step();
        Ok(std::array::from_fn(|place| {
            self.read(At::Part(Layout::hart(place)))[0]
        }))
    }

    fn wait_for_power(&self) {
        self.step();
    }

    fn restore(&self, state: Self::State) -> Result<(), CutReason> {
        self.step();
        self.harts.replace(state);
        Ok(())
    }
}

/// Runs and stops a machine, with the power gone after so many steps.
fn run_and_stop(memory: Memory, seed: u64, fuel: Option<(usize, u64)>, keep: u64) -> Cut {
    let machine = Machine::new(memory);
    machine.run(seed);
    machine.steps.set(0);
    machine.fuel.set(fuel);
    let is_committed = stop(&machine).is_ok() && machine.left.borrow().is_none();
    let os = machine.os();
    Cut {
        steps: machine.steps.get(),
        is_committed,
        os,
        memory: machine.power_off(keep),
    }
}

struct Cut {
    steps: usize,
    is_committed: bool,
    os: Os,
    memory: Memory,
}

/// Powers on until a start is not interrupted; the power goes after each number of steps in
/// `fuel`. Returns what the OS finds, if it goes on, and how often it was released.
fn power_on(mut memory: Memory, fuel: &[(usize, u64)]) -> (Option<Os>, usize, Memory) {
    let mut releases = 0;
    for fuel in fuel.iter().copied().map(Some).chain([None]) {
        let machine = Machine::new(memory);
        machine.fuel.set(fuel);
        let ready = go(&machine);
        // Harts run only where the power is still there.
        let is_on = machine.left.borrow().is_none();
        if is_on && ready.is_ok() {
            releases += 1;
            return (Some(machine.os()), releases, machine.power_off(0));
        }
        if is_on {
            return (None, releases, machine.power_off(0));
        }
        memory = machine.power_off(0);
    }
    unreachable!("the last start has all the power it needs")
}

#[test]
fn a_cut_is_gone_on_with_once() {
    let cut = run_and_stop(Memory::new(), 11, None, 0);
    assert!(cut.is_committed);
    let Found::Cut(report) = find(&Machine::new(cut.memory.clone())) else {
        panic!("it is committed");
    };
    let bytes = (HARTS + 3) * size_of::<Words>();
    assert_eq!(
        (report.sequence, report.ticks, report.bytes),
        (1, 17, bytes as u64)
    );
    let (os, releases, memory) = power_on(cut.memory, &[]);
    assert_eq!((os, releases), (Some(cut.os), 1));
    let machine = Machine::new(memory);
    assert_eq!(find(&machine), Found::Nothing);
    assert_eq!(go(&machine).err(), Some(None));
}

#[test]
fn every_step_of_stop_may_be_the_last() {
    let steps = run_and_stop(Memory::new(), 3, None, 0).steps;
    let before = run_and_stop(Memory::new(), 1, None, 0);
    let (_, _, before) = power_on(before.memory, &[]);
    let mut went_on = 0;
    for at in 1..=steps {
        for keep in [0, u64::MAX, 0x5555_5555_5555_5555, 0x1b1b_1b1b_1b1b_1b1b] {
            let cut = run_and_stop(before.clone(), 3, Some((at, keep)), keep);
            let (os, ..) = power_on(cut.memory, &[]);
            if let Some(os) = os {
                went_on += 1;
                assert_eq!(os, cut.os, "step {at} of {steps}, {keep:x}");
            }
        }
    }
    assert!(
        (1..=8).contains(&went_on),
        "behind the commit alone: {went_on}"
    );
}

#[test]
fn every_step_of_go_may_be_the_last_and_the_next_too() {
    let cut = run_and_stop(Memory::new(), 5, None, 0);
    for first in 1..12 {
        for second in 1..12 {
            for keep in [0, u64::MAX] {
                let fuel = [(first, keep), (second, keep)];
                let (os, releases, memory) = power_on(cut.memory.clone(), &fuel);
                assert!(releases <= 1);
                // Where it is not gone on with, the mark was set before the power went.
                if let Some(os) = os {
                    assert_eq!(os, cut.os);
                }
                assert_eq!(find(&Machine::new(memory)), Found::Nothing);
            }
        }
    }
}

#[test]
fn what_was_not_finished_says_why() {
    let cut = run_and_stop(Memory::new(), 5, Some((4, 0)), 0);
    let machine = Machine::new(cut.memory);
    assert_eq!(find(&machine), Found::Refused(CutReason::PowerLost));
    assert_eq!(go(&machine).err(), Some(Some(CutReason::PowerLost)));
    assert_eq!(find(&machine), Found::Nothing, "it is said once");

    let machine = Machine::new(Memory::new());
    machine.stuck.set(Some(2));
    let reason = CutReason::HartNotStopped(2);
    assert_eq!(stop(&machine).err(), Some(reason));
    let machine = Machine::new(machine.power_off(0));
    assert_eq!(find(&machine), Found::Refused(reason));
}

#[test]
fn a_step_that_is_left_out_is_missed() {
    let mutants = [
        Mutant::NoFlush,
        Mutant::NoLineWrittenBack(Place::Committed),
        Mutant::NoLineWrittenBack(Place::Begun),
    ];
    for mutant in mutants {
        let machine = Machine::new(Memory::new());
        machine.mutant.set(Some(mutant));
        machine.run(9);
        stop(&machine).unwrap();
        let os = machine.os();
        let (found, ..) = power_on(machine.power_off(0), &[]);
        let is_right = found == Some(os);
        // What is said of a cut that was committed does not matter.
        let expected = matches!(mutant, Mutant::NoLineWrittenBack(Place::Begun));
        assert_eq!(is_right, expected, "{mutant:?}");
    }
    // Without the mark in memory it would be gone on with twice.
    let cut = run_and_stop(Memory::new(), 5, None, 0);
    let machine = Machine::new(cut.memory);
    let mark = Mutant::NoLineWrittenBack(Place::Consumed);
    machine.mutant.set(Some(mark));
    go(&machine).unwrap();
    let machine = Machine::new(machine.power_off(0));
    assert!(matches!(find(&machine), Found::Cut(_)));
}

proptest! {
    /// A life of many cuts, of which some fail.
    #[test]
    fn a_life_goes_on_from_what_was_committed_last(
        lives in prop::collection::vec((any::<u64>(), 1usize..60, any::<u64>(),
            prop::collection::vec((1usize..14, any::<u64>()), 0..3)), 1..6),
    ) {
        let mut memory = Memory::new();
        for (seed, fuel, keep, starts) in lives {
            let cut = run_and_stop(memory, seed >> 1, Some((fuel, keep)), keep);
            let (os, releases, left) = power_on(cut.memory, &starts);
            prop_assert!(releases <= 1);
            if cut.is_committed && starts.is_empty() {
                prop_assert_eq!(os, Some(cut.os));
            } else if let Some(os) = os {
                prop_assert_eq!(os, cut.os);
            }
            memory = left;
        }
    }

    /// Whatever the record is, it is no cut that memory does not hold.
    #[test]
    fn a_flipped_bit_is_found(at in 0usize..1000, bit in 0usize..512) {
        let cut = run_and_stop(Memory::new(), 5, None, 0);
        let mut memory = cut.memory.clone();
        let record: Vec<At> = memory.keys().copied().filter(|at| !matches!(at, At::Os(_))).collect();
        let at = record[at % record.len()];
        memory.get_mut(&at).unwrap()[bit / 64] ^= 1 << (bit % 64);
        let (os, ..) = power_on(memory, &[]);
        // The line that a cut has begun is no part of it.
        let begun = At::Record(Layout::new(HARTS, 1).line_offset(Place::Begun));
        prop_assert_eq!(os.is_some(), at == begun);
    }
}

#[test]
fn a_discarded_cut_is_none_and_the_next_has_another_number() {
    let record = FakeRecord::new(&[true, false]);
    assert_eq!(Newest::in_record(&record), None);
    record.stop().unwrap();
    let newest = Newest::in_record(&record).unwrap();
    assert!(matches!(find(&record), Found::Cut(_)) && !newest.is_consumed);
    discard(&record);
    assert_eq!(find(&record), Found::Nothing);
    let newest = Newest::in_record(&record).unwrap();
    assert_eq!((newest.sequence, newest.is_consumed), (1, true));
    // It is told of all the same, as long as it is there.
    assert_eq!(newest.report(&record).unwrap().sequence, 1);
    record.stop().unwrap();
    let Found::Cut(report) = find(&record) else {
        panic!("no cut");
    };
    assert_eq!(report.sequence, 2);
}
