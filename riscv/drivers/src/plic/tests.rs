#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::WrongLength;

/// Priority levels 0 to 7; the other bits are read-only zeros (WARL).
const LEVELS: u32 = 7;

/// A PLIC as its specification describes it. An access to what is no register,
/// or to one that does something when it is read, is a fault of the driver.
#[derive(Debug)]
struct Model {
    sources: usize,
    contexts: usize,
    state: RefCell<Programmed>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Programmed {
    /// By source.
    priorities: BTreeMap<usize, u32>,
    /// By context and word.
    enables: BTreeMap<(usize, usize), u32>,
    /// By context.
    thresholds: BTreeMap<usize, u32>,
}

enum Register {
    Priority(usize),
    Enable(usize, usize),
    Threshold(usize),
}

impl Model {
    /// One whose registers hold what a reset leaves in them, which is anything.
    fn new(sources: usize, contexts: usize) -> Self {
        let model = Model {
            sources,
            contexts,
            state: RefCell::default(),
        };
        for context in 0..contexts {
            model.write(0x20_0000 + 0x1000 * context as u64, LEVELS);
        }
        model
    }

    fn register(&self, offset: u64) -> Register {
        assert!(offset.is_multiple_of(4), "{offset:#x} is not aligned");
        let offset = usize::try_from(offset).unwrap();
        let register = match offset {
            0x4..0x1000 => Register::Priority(offset / 4),
            0x2000..0x1f_2000 => Register::Enable((offset - 0x2000) / 0x80, offset % 0x80 / 4),
            0x20_0000.. if offset % 0x1000 == 0 => {
                Register::Threshold((offset - 0x20_0000) / 0x1000)
            }
            _ => panic!("no register that may be read lies at {offset:#x}"),
        };
        let exists = match register {
            Register::Priority(source) => source <= self.sources,
            Register::Enable(context, word) => context < self.contexts && word <= self.sources / 32,
            Register::Threshold(context) => context < self.contexts,
        };
        assert!(exists, "{offset:#x} belongs to no source or context");
        register
    }

    /// Whether the context is told of a source that is pending: it is enabled, and
    /// its priority exceeds the threshold.
    fn is_notified(&self, context: usize, source: usize) -> bool {
        let state = self.state.borrow();
        let enables = state.enables.get(&(context, source / 32));
        let priority = state.priorities.get(&source).copied().unwrap_or(0);
        enables.is_some_and(|word| word & (1 << (source % 32)) != 0)
            && priority > state.thresholds[&context]
    }
}

impl Registers<u32> for Model {
    fn read(&self, offset: u64) -> u32 {
        let state = self.state.borrow();
        let found = match self.register(offset) {
            Register::Priority(source) => state.priorities.get(&source),
            Register::Enable(context, word) => state.enables.get(&(context, word)),
            Register::Threshold(context) => state.thresholds.get(&context),
        };
        found.copied().unwrap_or(0)
    }

    fn write(&self, offset: u64, value: u32) {
        let mut state = self.state.borrow_mut();
        match self.register(offset) {
            Register::Priority(source) => {
                state.priorities.insert(source, value & LEVELS);
            }
            Register::Enable(context, word) => {
                // There is no source 0, and none behind the last.
                let exists = |bit: &u32| (1..=self.sources).contains(&(32 * word + *bit as usize));
                let mask = (0..32).filter(exists).fold(0, |mask, bit| mask | 1 << bit);
                state.enables.insert((context, word), value & mask);
            }
            Register::Threshold(context) => {
                state.thresholds.insert(context, value & LEVELS);
            }
        }
    }
}

fn described(sources: u32, contexts: &[u32]) -> devicetree::Plic {
    devicetree::Plic {
        base: 0,
        sources,
        contexts: contexts.iter().copied().collect(),
        machine_contexts: contexts.iter().map(|context| context - 1).collect(),
    }
}

/// What an OS might program: another number in each register.
fn program(model: &Model, contexts: &[u32]) {
    for source in 1..=model.sources as u64 {
        model.write(4 * source, 1 + source as u32 % LEVELS);
    }
    for context in contexts.iter().map(|context| u64::from(*context)) {
        for word in 0..=model.sources as u64 / 32 {
            let enables = 0x9e37_79b9_u32.wrapping_mul((context * 37 + word + 1) as u32);
            model.write(0x2000 + 0x80 * context + 4 * word, enables);
        }
        model.write(0x20_0000 + 0x1000 * context, context as u32 % 3);
    }
}

#[test]
fn what_was_programmed_comes_back() {
    for sources in [1, 31, 32, 95, 1023] {
        let contexts = [1, 3, 15871];
        let before = Model::new(sources, 15872);
        let described = described(sources as u32, &contexts);
        Plic::new(&before, &described).start();
        program(&before, &contexts);
        let words: Vec<u32> = Plic::new(&before, &described).capture().collect();
        assert!(words.len() <= crate::MAX_WORDS);

        let after = Model::new(sources, 15872);
        let plic = Plic::new(&after, &described);
        plic.start();
        plic.restore(&plic.check(&words[..]).unwrap());
        assert_eq!(before.state, after.state, "{sources} sources");
    }
}

#[test]
fn every_hart_of_the_largest_machine_fits() {
    let contexts: Vec<u32> = (0..MAX_HARTS as u32).map(|hart| 2 * hart + 1).collect();
    let model = Model::new(1023, 2 * MAX_HARTS);
    let plic = Plic::new(&model, &described(1023, &contexts));
    assert!(plic.capture().count() <= crate::MAX_WORDS);
}

#[test]
fn the_record_of_an_image_keeps_its_order() {
    let model = Model::new(33, 4);
    let plic = Plic::new(&model, &described(33, &[3, 1]));
    let offsets: Vec<u64> = plic.offsets().collect();
    let priorities: Vec<u64> = (1..=33).map(|source| 4 * source).collect();
    assert_eq!(offsets[..33], priorities);
    assert_eq!(
        offsets[33..],
        [0x2180, 0x2184, 0x20_3000, 0x2080, 0x2084, 0x20_1000]
    );
}

#[test]
fn after_a_start_every_priority_reaches_the_os() {
    let model = Model::new(40, 4);
    let plic = Plic::new(&model, &described(40, &[1, 3]));
    model.write(4 * 40, 1);
    for context in [0, 1, 2, 3] {
        model.write(0x2000 + 0x80 * context + 4, 1 << 8);
    }
    assert!(!model.is_notified(1, 40));
    plic.start();
    assert!(model.is_notified(1, 40) && model.is_notified(3, 40));
    for machine in [0, 2] {
        let enables = model.state.borrow().enables[&(machine, 1)];
        assert_eq!(enables, 0, "no source interrupts machine mode");
        // Not if another hart enables it meanwhile, with the highest priority.
        model.write(0x2000 + 0x80 * machine as u64 + 4, 1 << 8);
        model.write(4 * 40, LEVELS);
        assert!(!model.is_notified(machine, 40));
    }
}

#[test]
fn the_state_of_another_plic_is_refused() {
    let model = Model::new(40, 4);
    let plic = Plic::new(&model, &described(40, &[1]));
    let needed = 40 + 2 + 1;
    for found in [0, needed - 1, needed + 1] {
        let error = plic.check(vec![0; found]).unwrap_err();
        assert_eq!(error, WrongLength { needed, found });
    }
    assert!(plic.check(vec![0; needed]).is_ok());
}
