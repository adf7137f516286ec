//! Translated code against the interpreter, over hostile memory: whatever the OS's registers, page
//! tables and instructions are, both do the same. Translated code accesses nothing but the OS's
//! memory and its own, never leaves its region, and may be interrupted at any word.
//!
//! After the OS has written to its tables, or has chosen others, either side may still use an old
//! entry, as any hart may until a fence. Then only the interpreter's promises are checked.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits"
)]

#[path = "../../../riscv/translate/tests/blocks/ending.rs"]
mod ending;

use std::cell::Cell;
use std::sync::{LazyLock, Mutex};
use std::thread;

use ending::{Ending, Turns};
use poorwill_fuzz::virtual_hart::{CODE, PAGE, PAGES, TABLES, check, draw, entry};
use poorwill_fuzz::{Cases, Input};
use poorwill_isa::FORMS;
use poorwill_translate::fake::{FakeHost, MEMORY, RAM, State};
use poorwill_translate::fake_core::{ENVIRONMENT, FakeCore, MTIME};
use poorwill_translate::{
    Blocks, Counts, Environment, Host, Index, Mode, Options, Region, Stop, VirtualHart,
};

poorwill_fuzz::target!(max_len = 4096, run);

const TURNS: usize = 8;
/// Loads and looks at the time up to the end of a turn that no interrupt ends.
const LOADS: u64 = 2_000;

/// V, R, W, X, G, A and D of an entry.
const LEAF: u64 = 0xef;
/// R, W and X: the entry is no pointer.
const IS_LEAF: u64 = 0xe;
/// A and D, which harts set.
const USED: u64 = 0xc0;

type Places = (Box<Index>, Box<Region>, Box<Environment>);

/// Memory of translated code. It takes much stack to make.
static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(|| {
    let thread = thread::Builder::new().stack_size(64 << 20);
    let made = thread.spawn(|| {
        let environment = Environment::new(MTIME);
        let index = Box::new(Index::empty());
        (index, Box::new(Region::empty()), Box::new(environment))
    });
    Mutex::new(made.expect("a thread").join().expect("a region"))
});

fn run(bytes: &[u8]) {
    compared(bytes);
}

/// Runs a case. Returns the instructions of translated code that were compared.
fn compared(bytes: &[u8]) -> u64 {
    // A panic ends the process, or the test.
    let mut memory = PLACES.lock().expect("no run has panicked");
    let (index, region, environment) = &mut *memory;
    let mut pair = Pair::new(bytes);
    let options = Options {
        counts: true,
        zero_bytes: pair.hart.features.zero_block.filter(|bytes| *bytes <= 64),
        executions: pair.executions,
        ..Options::default()
    };
    let mut blocks = Blocks::new((index, region, environment), ENVIRONMENT, MEMORY, options);
    for disturbance in pair.disturbances {
        pair.disturb(disturbance);
        pair.turn(&mut blocks, disturbance);
    }
    pair.translated
}

/// What happens before and in a turn.
#[derive(Clone, Copy, Debug)]
struct Disturbance {
    /// By which `time` advances.
    time: u64,
    /// A device interrupts.
    interrupts: bool,
    /// Words of translated code up to an interrupt of the core, and interrupts before the last one.
    every: u64,
    more: u64,
}

impl Disturbance {
    fn draw(input: &mut Input<'_>) -> Self {
        Disturbance {
            time: input.below(16),
            interrupts: input.any(),
            every: 1 + input.below(100),
            more: input.below(12),
        }
    }
}

/// A hart with translated code, and one without.
struct Pair {
    hart: VirtualHart,
    host: FakeHost,
    model: VirtualHart,
    of_model: FakeHost,
    executions: u8,
    disturbances: [Disturbance; TURNS],
    /// The tables at the start, but for A and D.
    tables: Vec<u64>,
    satp: u64,
    /// Both sides must be equal.
    compares: bool,
    /// Instructions of translated code that were compared.
    translated: u64,
}

impl Pair {
    fn new(bytes: &[u8]) -> Self {
        let (hart, host, ..) = draw_all(bytes);
        let (model, of_model, executions, disturbances) = draw_all(bytes);
        Pair {
            tables: tables_of(&host.words()),
            satp: hart.csrs.satp,
            compares: true,
            translated: 0,
            hart,
            host,
            model,
            of_model,
            executions,
            disturbances,
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        for host in [&self.host, &self.of_model] {
            host.time.set(host.time.get() + disturbance.time);
            host.interrupts.set(disturbance.interrupts);
        }
        // Translated code is S-mode's, with tables.
        let pc = CODE + 4 * disturbance.every;
        for hart in [&mut self.hart, &mut self.model] {
            if hart.mode == Mode::User || hart.csrs.satp == 0 {
                hart.mode = Mode::Supervisor;
                hart.csrs.satp = self.satp;
                hart.drop_translations(None, None);
                hart.pc = pc;
            }
        }
    }

    /// Runs a turn with translated code, and the same instructions without.
    fn turn(&mut self, blocks: &mut Blocks<'_>, disturbance: Disturbance) {
        let is_over = Cell::new(false);
        let host = Turns {
            host: &self.host,
            is_over: &is_over,
            loads: Cell::new(LOADS),
        };
        let mut core = Ending {
            core: FakeCore::new(&self.host, disturbance.every),
            is_over: &is_over,
            more: disturbance.more,
            every: disturbance.every,
        };
        self.hart.counts = Counts::default();
        let stop = (self.hart).run_translated(blocks, &mut core, &host, u64::MAX - 1);
        let counts = self.hart.counts;
        assert!(counts.translated <= counts.instructions, "{counts:?}");
        assert!(stop != Stop::Lost, "{:x?}", State::of(&self.hart));
        check(&self.hart);
        // Without an interrupt of the core, the end is wherever the loads ended.
        self.compares &= host.loads.get() > 0;
        if self.compares {
            self.compare(blocks, stop, counts);
        }
        self.go_on(stop);
    }

    fn compare(&mut self, blocks: &mut Blocks<'_>, stop: Stop, counts: Counts) {
        let before = State::of(&self.model);
        let own = self.follow(blocks, stop, counts);
        let words = [self.host.words(), self.of_model.words()];
        let has_other_tables = |words: &Vec<u64>, satp| {
            tables_of(words) != self.tables || ![0, self.satp].contains(&satp)
        };
        if has_other_tables(&words[0], self.hart.csrs.satp)
            || has_other_tables(&words[1], self.model.csrs.satp)
        {
            self.compares = false;
            return;
        }
        // An interrupt leaves an instruction that has begun. It is executed again.
        for _ in 0..2 {
            if stop != Stop::Turn || self.is_same() {
                break;
            }
            let stops = [
                self.hart.run(&self.host, 1),
                self.model.run(&self.of_model, 1),
            ];
            assert_eq!(stops[0], stops[1]);
            // The hart may have written to code.
            blocks.begin(&self.host);
        }
        assert!(
            own == stop && self.is_same(),
            "{counts:?}\nbefore: {before:x?}\nblocks: {stop:?} {:x?}\ninterpreter: {own:?} {:x?}\n\
             memory is the same: {}",
            State::of(&self.hart),
            State::of(&self.model),
            self.host.words() == self.of_model.words(),
        );
        self.translated += counts.translated;
    }

    /// Runs the same instructions on the model.
    fn follow(&mut self, blocks: &mut Blocks<'_>, stop: Stop, counts: Counts) -> Stop {
        self.model.counts = Counts::default();
        let most = counts.instructions + counts.exceptions;
        let mut own = self.model.run(&self.of_model, most);
        if own == Stop::Turn && stop != Stop::Turn {
            own = self.model.run(&self.of_model, 1);
        }
        if self.model.counts.interrupts < counts.interrupts {
            // The turn has ended at the handler's first instruction, which may stop both.
            assert_eq!(stop, Stop::Turn);
            let first = self.model.run(&self.of_model, 1);
            assert_eq!(self.hart.run(&self.host, 1), first);
            // The hart may have written to code.
            blocks.begin(&self.host);
            own = stop;
        }
        own
    }

    fn is_same(&self) -> bool {
        State::of(&self.hart) == State::of(&self.model)
            && self.host.words() == self.of_model.words()
            && self.host.stored == self.of_model.stored
    }

    /// Does what the lent hart does at a stop.
    fn go_on(&mut self, stop: Stop) {
        for hart in [&mut self.hart, &mut self.model] {
            match stop {
                Stop::Call => hart.answer(0, 1),
                Stop::Unknown => hart.pc = hart.pc.wrapping_add(2) & !1,
                _ => {}
            }
        }
    }
}

/// A hart and its memory, with tables that map all of it, and then hostile entries.
fn draw_all(bytes: &[u8]) -> (VirtualHart, FakeHost, u8, [Disturbance; TURNS]) {
    let mut input = Input::new(bytes);
    let (host, mut hart) = draw(&mut input);
    hart.features.modes |= 1 << 8;
    map(&mut input, &host, &mut hart);
    // Most exceptions lead to code, too.
    if !input.one_in(4) {
        hart.csrs.stvec = CODE + 4 * input.below(PAGE / 16);
    }
    let executions = input.below(3) as u8;
    let disturbances = [(); TURNS].map(|()| Disturbance::draw(&mut input));
    put_instructions(input, &host);
    (hart, host, executions, disturbances)
}

/// Puts instructions into the page for code: most are of a known form.
fn put_instructions(input: Input<'_>, host: &FakeHost) {
    let bytes = input.take_rest();
    for (place, drawn) in (CODE..CODE + PAGE).step_by(4).zip(bytes.as_chunks::<5>().0) {
        let [form, bits @ ..] = *drawn;
        let bits = u32::from_le_bytes(bits);
        let word = match FORMS.get(usize::from(form)) {
            Some(form) => form.value | bits & !form.mask,
            None => bits,
        };
        host.put_code(place, &[word]);
    }
}

/// Maps all pages at their own addresses, and puts hostile entries over that. Tables are in the first
/// pages alone.
fn map(input: &mut Input<'_>, host: &FakeHost, hart: &mut VirtualHart) {
    let levels = 3 + input.below(3);
    let mode = if hart.features.modes >> (5 + levels) & 1 != 0 {
        5 + levels
    } else {
        8
    };
    let levels = mode - 5;
    hart.csrs.satp = mode << 60 | input.below(4) << 44 | (RAM / PAGE);
    let table = |number: u64| RAM + PAGE * number;
    for number in 0..levels - 1 {
        let place = RAM >> (12 + 9 * (levels - 1 - number)) & 511;
        host.store(table(number) + 8 * place, 8, table(number + 1) >> 2 | 1);
    }
    for page in (0..PAGES).map(|number| RAM + PAGE * number) {
        let place = page >> 12 & 511;
        host.store(table(levels - 1) + 8 * place, 8, page >> 2 | LEAF);
    }
    for _ in 0..input.below(16) {
        let place = match input.below(2) {
            0 => table(levels - 1) + 8 * input.below(PAGES),
            _ => table(input.below(TABLES)) + 8 * input.below(512),
        };
        let value = entry(input);
        let value = global(input, value);
        host.store(place, 8, value);
    }
}

/// Most leaves are of all address spaces, and pointers to memory are those to tables.
fn global(input: &mut Input<'_>, entry: u64) -> u64 {
    let page = entry >> 10 & ((1 << 44) - 1);
    let is_memory = (RAM / PAGE..RAM / PAGE + PAGES).contains(&page);
    match entry & IS_LEAF {
        0 if is_memory => entry & !(((1 << 44) - 1) << 10) | (RAM / PAGE + page % TABLES) << 10,
        0 => entry,
        _ if input.one_in(4) => entry,
        _ => entry | 1 << 5,
    }
}

/// The pages with tables, but for bits that harts set.
fn tables_of(words: &[u64]) -> Vec<u64> {
    let tables = &words[..(TABLES * PAGE / 8) as usize];
    tables.iter().map(|entry| entry & !USED).collect()
}

#[cfg(test)]
mod tests {
    /// Else the comparison would be of the interpreter with itself.
    #[test]
    fn cases_run_translated_code() {
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        };
        let mut cases = 0;
        let mut instructions = 0;
        for _ in 0..200 {
            let input: Vec<u8> = (0..1200).map(|_| byte()).collect();
            let translated = super::compared(&input);
            cases += u64::from(translated > 0);
            instructions += translated;
        }
        println!("{cases} cases, {instructions} instructions");
        assert!(cases > 20 && instructions > 200, "{cases}, {instructions}");
    }
}
