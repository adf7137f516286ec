//! Tests of the caches: examples, and a comparison with a model that keeps the history of each
//! line.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

/// Memory that a test and its caches share.
#[derive(Clone, Debug)]
struct Shared(Rc<RefCell<Vec<Line>>>);

impl Visible for Shared {
    fn lines(&self) -> usize {
        self.0.borrow().len()
    }

    fn read(&self, number: u32) -> Line {
        self.0.borrow()[number as usize]
    }

    fn write(&self, number: u32, line: &Line) {
        self.0.borrow_mut()[number as usize] = *line;
    }
}

impl Shared {
    fn byte(&self, line: u32, at: usize) -> u8 {
        self.read(line)[at]
    }

    /// Writes to memory before the caches take note, as QEMU does.
    fn put(&self, line: u32, start: usize, bytes: &[u8]) {
        let mut contents = self.read(line);
        contents[start..start + bytes.len()].copy_from_slice(bytes);
        self.write(line, &contents);
    }
}

/// Two harts over 64 lines, each byte of which is 1.
struct Machine {
    memory: Shared,
    cache: Cache<Shared>,
}

impl Machine {
    fn new() -> Self {
        Machine::with(Geometry::default(), 2)
    }

    fn with(geometry: Geometry, harts: usize) -> Self {
        let memory = Shared(Rc::new(RefCell::new(vec![[1; LINE_BYTES]; 64])));
        let mut cache = Cache::new(memory.clone(), geometry, harts);
        cache.take(0..64);
        Machine { memory, cache }
    }

    fn store(&mut self, hart: usize, line: u32, start: usize, bytes: &[u8]) {
        self.memory.put(line, start, bytes);
        self.cache.store(hart, line, start, bytes.len());
    }

    fn power_off(self) -> (Lost, Shared) {
        (self.cache.power_off(), self.memory)
    }
}

#[test]
fn what_was_not_flushed_is_the_old() {
    let mut machine = Machine::new();
    machine.store(0, 5, 8, &[2; 8]);
    assert!(machine.cache.is_dirty(5));
    let (lost, memory) = machine.power_off();
    assert_eq!(memory.read(5), [1; LINE_BYTES]);
    assert_eq!((lost.by_hart, lost.lines), (vec![1, 0], vec![5]));
}

#[test]
fn a_flush_counts_from_the_fence() {
    for (fenced, by) in [(false, 0), (true, 1), (true, 0)] {
        let mut machine = Machine::new();
        machine.store(0, 5, 0, &[2]);
        machine.cache.flush_line(0, 5);
        if fenced {
            machine.cache.fence(by);
        }
        let (lost, memory) = machine.power_off();
        let survives = fenced && by == 0;
        assert_eq!(memory.byte(5, 0), if survives { 2 } else { 1 });
        assert_eq!(lost.lines.is_empty(), survives);
    }
}

#[test]
fn a_store_between_flush_and_fence_is_not_flushed_but_what_was_before_is() {
    for by in [0, 1] {
        let mut machine = Machine::new();
        machine.store(0, 5, 0, &[2]);
        machine.cache.flush_line(0, 5);
        machine.store(by, 5, 1, &[3]);
        machine.cache.fence(0);
        let (lost, memory) = machine.power_off();
        assert_eq!((memory.byte(5, 0), memory.byte(5, 1)), (2, 1));
        assert_eq!(lost.by_hart[by], 1);
    }
}

#[test]
fn all_of_a_hart_is_its_own_only() {
    let mut machine = Machine::new();
    machine.store(0, 5, 0, &[2]);
    machine.store(1, 6, 0, &[2]);
    machine.store(0, 7, 0, &[2]);
    machine.store(1, 7, 0, &[3]);
    machine.cache.flush_all(0);
    machine.cache.fence(0);
    let (lost, memory) = machine.power_off();
    let bytes = [5, 6, 7].map(|line| memory.byte(line, 0));
    assert_eq!(bytes, [2, 1, 1], "line 7 moved away");
    assert_eq!(lost.by_hart, [0, 2]);
}

#[test]
fn reading_displaces() {
    let geometry = Geometry::new(4 * LINE_BYTES, 4).expect("one set");
    let mut machine = Machine::with(geometry, 2);
    machine.store(0, 5, 0, &[2]);
    for line in 10..14 {
        machine.cache.load(1, line);
        machine.cache.load(1, 5);
    }
    assert!(machine.cache.is_dirty(5), "another's reading does not");
    for line in 10..14 {
        machine.cache.load(0, line);
    }
    assert_eq!(machine.cache.counts().displaced, 1);
    let (_, memory) = machine.power_off();
    assert_eq!(memory.byte(5, 0), 2);
}

#[test]
fn a_device_that_writes_to_a_dirty_line_writes_it_back() {
    let mut machine = Machine::new();
    machine.store(0, 5, 0, &[2]);
    machine.memory.put(5, 32, &[9; 8]);
    machine.store(0, 5, 1, &[3]);
    assert_eq!(machine.cache.counts().device_writes, 1);
    let (lost, memory) = machine.power_off();
    let bytes = [0, 1, 32].map(|at| memory.byte(5, at));
    assert_eq!(bytes, [2, 1, 9], "all but the last store");
    assert_eq!(lost.lines, [5]);
}

#[test]
fn a_device_that_wrote_last_has_written_the_line_back() {
    let mut machine = Machine::new();
    machine.store(0, 5, 0, &[2]);
    machine.memory.put(5, 32, &[9; 8]);
    let (lost, memory) = machine.power_off();
    assert_eq!((memory.byte(5, 0), memory.byte(5, 32)), (2, 9));
    assert_eq!((lost.device_written, lost.lines.len()), (1, 0));
}

#[test]
fn a_flush_takes_a_devices_bytes_along() {
    let mut machine = Machine::new();
    machine.store(0, 5, 0, &[2]);
    machine.memory.put(5, 32, &[9; 8]);
    machine.cache.flush_line(0, 5);
    machine.memory.put(5, 40, &[8; 8]);
    machine.cache.fence(0);
    assert!(!machine.cache.is_dirty(5));
    assert_eq!(machine.cache.memory(5), machine.memory.read(5));
}

#[test]
fn what_a_device_wrote_before_the_first_store_is_in_memory() {
    let mut machine = Machine::new();
    machine.memory.put(5, 32, &[9; 8]);
    machine.store(0, 5, 0, &[2]);
    let (lost, memory) = machine.power_off();
    assert_eq!((memory.byte(5, 0), memory.byte(5, 32)), (1, 9));
    assert_eq!(lost.device_written, 0);
}

#[test]
fn a_walkers_bits_go_with_their_line() {
    let mut machine = Machine::new();
    machine.store(0, 5, 0, &[0x0f, 0, 0, 0, 0, 0, 0, 0]);
    machine.memory.put(5, 0, &[0xcf]);
    machine.store(0, 5, 8, &[2]);
    assert_eq!(machine.cache.counts().device_writes, 0);
    machine.memory.put(5, 8, &[0xc2]);
    let (lost, memory) = machine.power_off();
    assert_eq!(memory.read(5), [1; LINE_BYTES]);
    assert_eq!((lost.device_written, lost.lines.len()), (0, 1));
}

const HARTS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Store(usize, u32, usize, Vec<u8>),
    Load(usize, u32),
    FlushLine(usize, u32),
    FlushAll(usize),
    Fence(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let hart = 0..HARTS;
    let line = 0..8_u32;
    let store = (
        hart.clone(),
        line.clone(),
        0..57_usize,
        1..8_usize,
        2..255_u8,
    )
        .prop_map(|(hart, line, start, length, byte)| {
            Op::Store(hart, line, start, vec![byte; length])
        });
    let op = prop_oneof![
        6 => store,
        2 => (hart.clone(), line.clone()).prop_map(|(hart, line)| Op::Load(hart, line)),
        3 => (hart.clone(), line).prop_map(|(hart, line)| Op::FlushLine(hart, line)),
        1 => hart.clone().prop_map(Op::FlushAll),
        2 => hart.prop_map(Op::Fence),
    ];
    proptest::collection::vec(op, 0..120)
}

/// A model: each line's contents after each store, and the latest of them that is durable.
struct Oracle {
    history: Vec<Vec<Line>>,
    durable: Vec<usize>,
    owner: Vec<Option<usize>>,
    flushes: Vec<(usize, u32, usize)>,
}

impl Oracle {
    fn new() -> Self {
        Oracle {
            history: vec![vec![[1; LINE_BYTES]]; 8],
            durable: vec![0; 8],
            owner: vec![None; 8],
            flushes: Vec::new(),
        }
    }

    fn flush(&mut self, hart: usize, line: usize) {
        let last = self.history[line].len() - 1;
        let number = u32::try_from(line).expect("few lines");
        self.flushes.push((hart, number, last));
    }

    fn fence(&mut self, hart: usize) {
        for (_, line, at) in self.flushes.extract_if(.., |flush| flush.0 == hart) {
            let durable = &mut self.durable[line as usize];
            *durable = at.max(*durable);
        }
        for line in 0..8 {
            if self.durable[line] == self.history[line].len() - 1 {
                self.owner[line] = None;
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Store(hart, line, start, bytes) => {
                let history = &mut self.history[*line as usize];
                let mut contents = *history.last().expect("a first");
                contents[*start..*start + bytes.len()].copy_from_slice(bytes);
                history.push(contents);
                self.owner[*line as usize] = Some(*hart);
            }
            Op::Load(..) => {}
            Op::FlushLine(hart, line) => self.flush(*hart, *line as usize),
            Op::FlushAll(hart) => {
                let owned = (0..8).filter(|line| self.owner[*line] == Some(*hart));
                for line in owned.collect::<Vec<_>>() {
                    self.flush(*hart, line);
                }
            }
            Op::Fence(hart) => self.fence(*hart),
        }
    }
}

fn run(geometry: Geometry, ops: &[Op]) -> (Oracle, Counts, Lost, Shared) {
    let mut machine = Machine::with(geometry, HARTS);
    let mut oracle = Oracle::new();
    for op in ops {
        oracle.apply(op);
        match op {
            Op::Store(hart, line, start, bytes) => machine.store(*hart, *line, *start, bytes),
            Op::Load(hart, line) => machine.cache.load(*hart, *line),
            Op::FlushLine(hart, line) => machine.cache.flush_line(*hart, *line),
            Op::FlushAll(hart) => machine.cache.flush_all(*hart),
            Op::Fence(hart) => machine.cache.fence(*hart),
        }
    }
    let counts = machine.cache.counts();
    let (lost, memory) = machine.power_off();
    (oracle, counts, lost, memory)
}

proptest! {
    /// Without displacements, each line has the contents of its last flush.
    #[test]
    fn exactly_what_was_flushed_survives(ops in ops()) {
        let (oracle, counts, lost, memory) = run(Geometry::default(), &ops);
        prop_assert_eq!(counts.displaced, 0);
        prop_assert_eq!(counts.device_writes + lost.device_written, 0);
        for line in 0..8_u32 {
            let at = line as usize;
            prop_assert_eq!(memory.read(line), oracle.history[at][oracle.durable[at]]);
        }
    }

    /// With displacements, each line has the contents after one of its stores, and none is older
    /// than its last flush.
    #[test]
    fn no_line_is_torn_or_older_than_its_flush(ops in ops()) {
        let tiny = Geometry::new(2 * LINE_BYTES, 1).expect("two sets");
        let (oracle, _, lost, memory) = run(tiny, &ops);
        prop_assert_eq!(lost.device_written, 0);
        for line in 0..8_u32 {
            let at = line as usize;
            let allowed = &oracle.history[at][oracle.durable[at]..];
            prop_assert!(allowed.contains(&memory.read(line)));
        }
    }
}
