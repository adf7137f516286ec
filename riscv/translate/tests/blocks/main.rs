//! Translated code against the interpreter: random programs, interrupted at any of their words.
//!
//! `POORWILL_PROGRAMS` is the number of programs, `POORWILL_SEED` the first one's seed.
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out intentionally"
)]

mod across;
mod beside;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod directed;
#[path = "../oracle/draw.rs"]
mod draw;
mod ending;
mod interrupted;
mod lines;
mod tails;
mod text;

use std::cell::Cell;
use std::collections::BTreeMap;

use fastrand::Rng;
use poorwill_isa::{Format, Operation};
use poorwill_translate::fake::{FakeHost, MEMORY, State};
use poorwill_translate::fake_core::{ENVIRONMENT, FakeCore, MTIME};
use poorwill_translate::{
    Blocks, Counts, Environment, Index, Mode, Options, Region, Stop, VirtualHart,
};

use draw::{Case, OF_CODE, OF_SATP, POINTERS, one_in, pointer, value};
use ending::{Ending, Turns};

const PROGRAMS: u64 = 400;
const INSTRUCTIONS: usize = 50;

/// Turns of a program.
const TURNS: u64 = 60;

fn number_of(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// A hart with translated code, and one without.
struct Pair {
    case: Case,
    rng: Rng,
    seed: u64,
    hart: VirtualHart,
    host: FakeHost,
    model: VirtualHart,
    of_model: FakeHost,
    satp: u64,
    steps: u64,
    ends: BTreeMap<&'static str, u64>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut case = loop {
            let case = draw::case(&mut rng, INSTRUCTIONS, None);
            if case.mode == Mode::Supervisor && case.satp != 0 {
                break case;
            }
        };
        case.map_for_all();
        let (host, satp) = case.host();
        let mut hart = VirtualHart::new();
        hart.features = case.features;
        hart.mode = case.mode;
        hart.pc = case.pc;
        hart.csrs.satp = satp;
        hart.csrs.stvec = case.stvec;
        hart.csrs.sstatus = case.sstatus;
        hart.csrs.sie = case.sie;
        let mut pair = Pair {
            model: copy(&hart),
            of_model: case.host().0,
            case,
            rng,
            seed,
            hart,
            host,
            satp,
            steps: 0,
            ends: BTreeMap::new(),
        };
        for register in 1..32 {
            let value = value(&mut pair.rng);
            pair.set(register, value);
        }
        pair.point();
        pair
    }

    fn set(&mut self, register: u8, value: u64) {
        self.hart.x[usize::from(register)] = value;
        self.model.x[usize::from(register)] = value;
    }

    fn point(&mut self) {
        for register in POINTERS {
            let address = pointer(&mut self.rng, &self.case);
            self.set(register, address);
        }
        self.set(OF_CODE, self.case.pc);
        let space = self.rng.u64(..1 << 16) << 44;
        let satp = match self.rng.u32(0..8) {
            0 => 0,
            _ => self.satp & !(0xffff << 44) | space,
        };
        self.set(OF_SATP, satp);
    }

    fn disturb(&mut self) {
        for host in [&self.host, &self.of_model] {
            host.time.set(self.steps);
        }
        let is_external = one_in(&mut self.rng, 8);
        for host in [&self.host, &self.of_model] {
            host.interrupts.set(is_external);
        }
        let deadline = self.rng.u64(..100);
        if one_in(&mut self.rng, 8) {
            self.point();
        }
        let handler = self.hart.csrs.stvec & !0xfff;
        let is_in = |start: u64| self.hart.pc.wrapping_sub(start) < 0x2000;
        let is_lost = !is_in(self.case.code) && !is_in(handler) || self.hart.mode == Mode::User;
        let has_other = self.hart.csrs.satp >> 60 == 0;
        let pc = self.case.pc + 4 * self.rng.u64(0..32);
        for hart in [&mut self.hart, &mut self.model] {
            hart.csrs.deadline = deadline;
            if has_other {
                hart.csrs.satp = self.satp;
                hart.drop_translations(None, None);
            }
            if is_lost {
                hart.mode = Mode::Supervisor;
                hart.pc = pc;
            }
        }
    }

    /// Runs a turn on both, and compares. Returns false for a program that cannot be compared.
    fn turn(&mut self, blocks: &mut Blocks<'_>) -> bool {
        let is_over = Cell::new(false);
        let host = Turns {
            host: &self.host,
            is_over: &is_over,
            loads: Cell::new(20_000),
        };
        let every = self.rng.u64(1..60);
        let mut core = Ending {
            core: FakeCore::new(&self.host, every),
            is_over: &is_over,
            more: self.rng.u64(0..12),
            every,
        };
        self.hart.counts = Counts::default();
        let until = u64::MAX - 1;
        let stop = (self.hart).run_translated(blocks, &mut core, &host, until);
        if host.loads.get() == 0 {
            *self.ends.entry("endless").or_default() += 1;
            return false;
        }
        let counts = self.hart.counts;
        self.steps += counts.instructions;
        self.tally(stop, counts, core.core.instructions);
        self.compare(stop, counts);
        self.go_on(stop);
        true
    }

    fn tally(&mut self, stop: Stop, counts: Counts, words: u64) {
        let name = match stop {
            Stop::Turn => "turn",
            Stop::Pauses => "pauses",
            Stop::Waits => "waits",
            Stop::Call => "call",
            Stop::User => "user",
            Stop::Unknown => "unknown",
            Stop::Lost => "lost",
            Stop::Differs(difference) => panic!("{difference}, seed {}", self.seed),
        };
        *self.ends.entry(name).or_default() += 1;
        *self.ends.entry("translated").or_default() += counts.translated;
        *self.ends.entry("interpreted").or_default() += counts.instructions - counts.translated;
        *self.ends.entry("words").or_default() += words;
    }

    /// Runs the same number of instructions on the other hart, and compares.
    fn compare(&mut self, stop: Stop, counts: Counts) {
        let before = State::of(&self.model);
        self.model.counts = Counts::default();
        let most = counts.instructions + counts.exceptions;
        let mut own = self.model.run(&self.of_model, most);
        if own == Stop::Turn && stop != Stop::Turn {
            own = self.model.run(&self.of_model, 1);
        }
        if self.model.counts.interrupts < counts.interrupts {
            // The turn has ended at the handler's first instruction.
            assert_eq!(stop, Stop::Turn);
            own = self.model.run(&self.of_model, 1);
            assert_eq!(self.hart.run(&self.host, 1), own);
        }
        self.overlook_targets();
        let words = self.host.words();
        let different = words.iter().zip(self.of_model.words()).enumerate();
        let different: Vec<_> = different
            .filter(|(_, (own, other))| *own != other)
            .collect();
        let same = (own, State::of(&self.model)) == (stop, State::of(&self.hart))
            && (different.is_empty() || self.is_half_zeroed(&different));
        assert!(
            same,
            "after {} steps; POORWILL_SEED={} POORWILL_PROGRAMS=1 repeats it\n{counts:?}\n\
             before: {before:x?}\nmemory: {different:x?}\n\
             blocks: {stop:?} {:x?}\ninterpreter: {own:?} {:x?}\n{:x?}",
            self.steps,
            self.seed,
            State::of(&self.hart),
            State::of(&self.model),
            self.case,
        );
    }

    /// The next instruction may have changed a register that it writes again. So may the one after an
    /// `auipc`, which is translated with it.
    fn overlook_targets(&mut self) {
        let mut pc = self.hart.pc;
        for _ in 0..2 {
            let Some(next) = self.case.instruction_at(pc) else {
                return;
            };
            let has_target = !matches!(next.operation.format(), Format::S | Format::B);
            let reads_second = next.operation.format() == Format::R && next.rs2 == next.rd;
            if has_target && next.rs1 != next.rd && !reads_second {
                let rd = usize::from(next.rd);
                self.model.x[rd] = self.hart.x[rd];
            }
            if next.operation != Operation::Auipc {
                return;
            }
            pc = pc.wrapping_add(next.length.into());
        }
    }

    /// Returns whether `cbo.zero`, the next instruction, has cleared a part of its block. It does so
    /// again afterwards.
    fn is_half_zeroed(&self, different: &[(usize, (&u64, u64))]) -> bool {
        let block = different[0].0 / 8;
        let next = self.case.instruction_at(self.hart.pc);
        let is_next = next.is_some_and(|next| next.operation == Operation::CboZero);
        is_next && (different.iter()).all(|(word, (own, _))| word / 8 == block && **own == 0)
    }

    fn go_on(&mut self, stop: Stop) {
        let (error, value) = (self.rng.u64(..), self.rng.u64(..));
        let length = 2 * self.rng.u64(1..3);
        for hart in [&mut self.hart, &mut self.model] {
            match stop {
                Stop::Call => hart.answer(error, value),
                Stop::Unknown => hart.pc = hart.pc.wrapping_add(length),
                _ => {}
            }
        }
    }
}

fn copy(hart: &VirtualHart) -> VirtualHart {
    let mut copy = VirtualHart::new();
    copy.x = hart.x;
    copy.pc = hart.pc;
    copy.mode = hart.mode;
    copy.f = hart.f;
    copy.csrs = hart.csrs;
    copy.features = hart.features;
    copy
}

fn programs(checks: bool) {
    let first = number_of("POORWILL_SEED").unwrap_or(1);
    let programs = number_of("POORWILL_PROGRAMS").unwrap_or(PROGRAMS);
    let mut index = Box::new(Index::empty());
    let mut region = Box::new(Region::empty());
    let mut environment = Box::new(Environment::new(MTIME));
    let mut ends = BTreeMap::new();
    for seed in first..first + programs {
        let mut pair = Pair::new(seed);
        let options = Options {
            counts: true,
            tables_only: seed % 5 == 0,
            zero_bytes: pair.case.features.zero_block.filter(|bytes| *bytes <= 64),
            executions: (seed % 3) as u8,
            checks,
        };
        let mut blocks = Blocks::new(
            (&mut index, &mut region, &mut environment),
            ENVIRONMENT,
            MEMORY,
            options,
        );
        for _ in 0..TURNS {
            pair.disturb();
            if !pair.turn(&mut blocks) {
                break;
            }
        }
        *ends.entry("compared").or_default() += blocks.compared();
        for (end, count) in pair.ends {
            *ends.entry(end).or_default() += count;
        }
    }
    println!("{programs} programs, checks: {checks}; {ends:#?}");
    if programs >= PROGRAMS {
        let kinds = ["turn", "pauses", "waits", "call", "user", "unknown"];
        assert!(kinds.iter().all(|kind| ends.contains_key(kind)), "{ends:?}");
        assert!(ends["translated"] > ends["interpreted"] / 4, "{ends:?}");
        let compared = if checks { ends["translated"] } else { 0 };
        assert!(ends["compared"] >= compared / 100 * 95, "{ends:?}");
        assert_eq!(ends.get("lost"), None::<&u64>);
    }
}

/// The region takes much stack.
fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    let thread = thread.spawn(test).expect("a thread");
    thread.join().expect("the comparison");
}

#[test]
fn translated_programs_do_what_the_interpreter_does() {
    on_a_large_stack(|| programs(false));
}

#[test]
fn programs_have_no_difference_in_check_mode() {
    on_a_large_stack(|| programs(true));
}
