//! Code that changes, pages that move, and instructions of several words that are interrupted.

use std::cell::Cell;

use poorwill_isa::encode;
use poorwill_translate::fake::{FakeHost, MEMORY, RAM};
use poorwill_translate::fake_core::{ENVIRONMENT, FakeCore, MTIME};
use poorwill_translate::{
    Blocks, Environment, Host, Index, Mode, Options, Region, Stop, VirtualHart,
};

use crate::common::flags::{A, D, G, R, V, W, X};
use crate::common::{i, of, r, s};
use crate::ending::Ending;

/// Physical pages with code.
pub(super) const PLACES: [u64; 2] = [RAM + 0x1000, RAM + 0x2000];
/// The virtual page of the code, and another one of the same place.
pub(super) const CODE: u64 = 0x10_0000;
const ALIAS: u64 = 0x20_0000;

/// A virtual page of data.
pub(super) const DATA: u64 = 0x30_0000;
pub(super) const DATA_PLACES: [u64; 2] = [RAM + 0x8000, RAM + 0x9000];

/// Rounds of a loop.
pub(super) const ROUNDS: i32 = 50;

pub(super) fn addition(number: i32) -> u32 {
    i("addi", 10, 10, number)
}

/// Adds to a0 in a loop, and then calls.
pub(super) fn program(number: i32) -> [u32; 5] {
    [
        i("addi", 11, 0, ROUNDS),
        addition(number),
        i("addi", 11, 11, -1),
        encode::b(of("bne"), 11, 0, -8),
        of("ecall"),
    ]
}

pub(super) struct Machine {
    pub(super) host: FakeHost,
    pub(super) hart: VirtualHart,
    /// The leaves of the code and the data.
    pub(super) leaves: [u64; 2],
}

impl Machine {
    fn new() -> Self {
        Self::with_pages(64)
    }

    /// With this number of pages of memory.
    pub(super) fn with_pages(pages: u64) -> Self {
        let host = FakeHost::new(pages);
        let root = host.take_page();
        let code = host.map(root, 3, 0, CODE, PLACES[0], V | R | X | G | A);
        let data = host.map(root, 3, 0, DATA, DATA_PLACES[0], V | R | W | G | A | D);
        host.map(root, 3, 0, ALIAS, PLACES[0], V | R | W | G | A | D);
        host.put_code(PLACES[0], &program(1));
        let mut hart = VirtualHart::new();
        hart.features.modes = 1 | 1 << 8;
        hart.mode = Mode::Supervisor;
        hart.csrs.satp = 8 << 60 | root >> 12;
        Machine {
            host,
            hart,
            leaves: [code, data],
        }
    }

    /// The table at the root.
    pub(super) fn root(&self) -> u64 {
        self.hart.csrs.satp << 12
    }

    /// Runs the program; returns what it adds.
    pub(super) fn run(&mut self, blocks: &mut Blocks<'_>) -> u64 {
        let before = self.hart.x[10];
        self.hart.pc = CODE;
        self.go_on(blocks, u64::MAX);
        (self.hart.x[10] - before) / u64::from(ROUNDS.cast_unsigned())
    }

    /// Runs up to a call. The core is interrupted once, before this word. Returns the words of
    /// translated code that have run.
    pub(super) fn go_on(&mut self, blocks: &mut Blocks<'_>, word: u64) -> u64 {
        let (stop, words) = self.run_until(blocks, word);
        assert_eq!(stop, Stop::Call);
        words
    }

    /// As [`go_on`](Self::go_on), up to any stop.
    pub(super) fn run_until(&mut self, blocks: &mut Blocks<'_>, word: u64) -> (Stop, u64) {
        let is_over = Cell::new(false);
        let mut core = Ending {
            core: FakeCore::new(&self.host, word),
            is_over: &is_over,
            more: u64::MAX,
            every: u64::MAX,
        };
        let until = u64::MAX;
        let stop = self
            .hart
            .run_translated(blocks, &mut core, &self.host, until);
        (stop, core.core.instructions)
    }
}

/// Runs a test with no blocks, on a stack with room for them.
pub(super) fn with_blocks(test: fn(Machine, Blocks<'_>)) {
    let options = Options {
        executions: 1,
        ..Options::default()
    };
    with(options, test);
}

pub(super) fn with(options: Options, test: impl FnOnce(Machine, Blocks<'_>) + Send + 'static) {
    let run = move || {
        let mut index = Box::new(Index::empty());
        let mut region = Box::new(Region::empty());
        let mut environment = Box::new(Environment::new(MTIME));
        let environment = &mut *environment;
        let blocks = Blocks::new(
            (&mut index, &mut region, environment),
            ENVIRONMENT,
            MEMORY,
            options,
        );
        test(Machine::new(), blocks);
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(run);
    thread.expect("a thread").join().expect("the test");
}

#[test]
fn the_os_patches_its_code() {
    with_blocks(|mut machine, mut blocks| {
        // A program of the OS patches the first one, by the alias, and runs it.
        let patches = [s("sw", 12, 13, 4), of("fence.i"), i("jalr", 0, 14, 0)];
        machine.host.put_code(PLACES[0] + 0x100, &patches);
        assert_eq!(machine.run(&mut blocks), 1);
        for number in 2..12 {
            machine.hart.x[12] = ALIAS;
            machine.hart.x[13] = addition(number).into();
            machine.hart.x[14] = CODE;
            let before = machine.hart.x[10];
            machine.hart.pc = CODE + 0x100;
            machine.go_on(&mut blocks, u64::MAX);
            let added = (machine.hart.x[10] - before) / u64::from(ROUNDS.cast_unsigned());
            assert_eq!(added, u64::from(number.cast_unsigned()));
        }
    });
}

#[test]
fn an_instruction_across_pages_is_interpreted_alone() {
    let options = Options {
        counts: true,
        ..Options::default()
    };
    with(options, |mut machine, mut blocks| {
        let (host, root) = (&machine.host, machine.root());
        let flags = V | R | X | G | A;
        host.map(root, 3, 0, CODE + 0x1000, PLACES[0] + 0x1000, flags);
        let mut code = [addition(0); 10];
        code[..3].copy_from_slice(&program(1)[..3]);
        code[8..].copy_from_slice(&[encode::b(of("bne"), 11, 0, -28), of("ecall")]);
        host.put_code(PLACES[0] + 0xffa, &code);
        for _ in 0..3 {
            machine.hart.counts = Default::default();
            machine.hart.pc = CODE + 0xffa;
            machine.go_on(&mut blocks, u64::MAX);
        }
        let counts = machine.hart.counts;
        let rounds = u64::from(ROUNDS.cast_unsigned());
        assert_eq!(counts.instructions, 1 + 8 * rounds);
        assert_eq!(counts.instructions - counts.translated, rounds);
    });
}

#[test]
fn code_changes_between_lendings() {
    with_blocks(|mut machine, mut blocks| {
        for number in 1..6 {
            machine.host.put_code(PLACES[0], &program(number));
            machine.hart.forget();
            blocks.begin(&machine.host);
            let number = u64::from(number.cast_unsigned());
            assert_eq!(machine.run(&mut blocks), number);
            assert_eq!(machine.run(&mut blocks), number);
        }
    });
}

#[test]
fn a_page_of_code_moves_and_is_fenced() {
    with_blocks(|mut machine, mut blocks| {
        machine.host.put_code(PLACES[1], &program(2));
        for turn in 0..6 {
            let place = PLACES[turn % 2];
            let leaf = place >> 12 << 10 | V | R | X | G | A;
            machine.host.store(machine.leaves[0], 8, leaf);
            let address = (turn < 3).then_some(CODE);
            machine.hart.drop_translations(address, None);
            let expected = 1 + turn as u64 % 2;
            assert_eq!(machine.run(&mut blocks), expected);
            assert_eq!(machine.run(&mut blocks), expected);
        }
    });
}

/// Moves a page that a program accesses by the register `base`.
fn moves_data(mut machine: Machine, mut blocks: Blocks<'_>, base: u8) {
    let program = [
        i("addi", 11, 0, ROUNDS),
        i("ld", 12, base.into(), 0),
        r("add", 10, 10, 12),
        i("addi", 11, 11, -1),
        encode::b(of("bne"), 11, 0, -12),
        of("ecall"),
    ];
    machine.host.put_code(PLACES[0], &program);
    machine.hart.x[usize::from(base)] = DATA;
    for turn in 0..6 {
        let place = DATA_PLACES[turn % 2];
        let number = 3 + turn as u64;
        machine.host.store(place, 8, number);
        let leaf = place >> 12 << 10 | V | R | W | G | A | D;
        machine.host.store(machine.leaves[1], 8, leaf);
        let address = (turn < 3).then_some(DATA);
        machine.hart.drop_translations(address, None);
        assert_eq!(machine.run(&mut blocks), number);
        assert_eq!(machine.run(&mut blocks), number);
    }
}

#[test]
fn a_page_of_data_moves_and_is_fenced() {
    with_blocks(|machine, blocks| moves_data(machine, blocks, 13));
}

#[test]
fn a_page_of_a_stack_moves_and_is_fenced() {
    with_blocks(|machine, blocks| moves_data(machine, blocks, 2));
}

/// Adds one to a double word, and calls a function at an address in the register of the link. `sc`
/// leaves its result in a register.
fn words(result: u8) -> [u32; 15] {
    [
        i("addi", 11, 0, 5),
        // The addition, which is tried again.
        r("lr.d", 12, 13, 0),
        i("addi", 12, 12, 1),
        r("sc.d", result.into(), 13, 12),
        encode::b(of("bne"), result.into(), 0, -12),
        encode::u(of("auipc"), 1, 0),
        i("addi", 1, 1, 32),
        i("jalr", 1, 1, 0),
        i("addi", 11, 11, -1),
        encode::b(of("bne"), 11, 0, -32),
        of("ecall"),
        of("ebreak"),
        of("ebreak"),
        // The function.
        addition(1),
        i("jalr", 0, 1, 0),
    ]
}

#[test]
fn an_interrupt_at_any_word_changes_nothing() {
    with_blocks(|mut machine, mut blocks| {
        // The second time also the register of the value.
        for result in [14, 12] {
            machine.host.put_code(PLACES[0], &words(result));
            machine.hart.x[13] = DATA;
            blocks.clear();
            for word in 1..700 {
                machine.host.store(DATA_PLACES[0], 8, 0);
                machine.hart.x[10] = 0;
                machine.hart.pc = CODE;
                machine.go_on(&mut blocks, word);
                let added = machine.host.load(DATA_PLACES[0], 8);
                assert_eq!(
                    [machine.hart.x[10], added],
                    [5, 5],
                    "word {word}, x{result}"
                );
            }
        }
    });
}

/// Linux's modules lie below its image.
#[test]
fn addresses_of_modules_are_constants() {
    const MODULE: u64 = 0xffff_ffff_0100_0000;
    let options = Options {
        counts: true,
        ..Options::default()
    };
    with(options, |mut machine, mut blocks| {
        let program = [
            i("addi", 11, 0, ROUNDS),
            encode::u(of("auipc"), 1, 0),
            i("jalr", 1, 1, 24),
            i("addi", 11, 11, -1),
            encode::b(of("bne"), 11, 0, -12),
            of("ecall"),
            of("ebreak"),
            // The function.
            addition(1),
            encode::u(of("auipc"), 12, 0),
            i("jalr", 0, 1, 0),
        ];
        machine.host.put_code(PLACES[0], &program);
        let (host, root) = (&machine.host, machine.root());
        host.map(root, 3, 0, MODULE, PLACES[0], V | R | X | G | A);
        for turn in 0..3 {
            machine.hart.counts = Default::default();
            let before = machine.hart.x[10];
            machine.hart.pc = MODULE;
            machine.go_on(&mut blocks, u64::MAX);
            let added = machine.hart.x[10] - before;
            assert_eq!(added, u64::from(ROUNDS.cast_unsigned()));
            assert_eq!(machine.hart.x[12], MODULE + 32);
            assert_eq!(machine.hart.x[1], MODULE + 12);
            let counts = machine.hart.counts;
            assert_eq!(counts.instructions, counts.translated, "turn {turn}");
        }
    });
}

#[test]
fn a_full_cache_begins_anew() {
    /// Pages of code: their jumps are more blocks than there is room for.
    const PAGES: u64 = 32;
    const FIRST: u64 = RAM + 0x1_0000;
    const BLOCKS: u64 = PAGES * 1024 - 1;
    /// `c.addi a0, 1`, and `c.j` to the next instruction.
    const PAIR: u32 = 0xa009_0505;
    with_blocks(|mut machine, mut blocks| {
        let root = machine.hart.csrs.satp << 12;
        for page in 0..PAGES {
            let place = FIRST + 4096 * page;
            let address = 0x40_0000 + 4096 * page;
            machine
                .host
                .map(root, 3, 0, address, place, V | R | X | G | A);
            machine.host.put_code(place, &[PAIR; 1024]);
        }
        let end = FIRST + 4096 * PAGES - 4;
        machine.host.put_code(end, &[of("ecall")]);
        for _ in 0..4 {
            machine.hart.x[10] = 0;
            machine.hart.pc = 0x40_0000;
            machine.go_on(&mut blocks, u64::MAX);
            assert_eq!(machine.hart.x[10], BLOCKS);
        }
        assert!(blocks.sizes()[0] < BLOCKS as usize);
    });
}

#[test]
fn a_store_across_two_pages_of_code_is_seen_in_both() {
    with_blocks(|mut machine, mut blocks| {
        let root = machine.hart.csrs.satp << 12;
        let (next, alias) = (CODE + 4096, ALIAS + 4096);
        machine
            .host
            .map(root, 3, 0, next, PLACES[1], V | R | X | G | A);
        machine
            .host
            .map(root, 3, 0, alias, PLACES[1], V | R | W | G | A | D);
        // An addition is the last instruction of the first page, and one the first of the second.
        let store = [s("sd", 13, 12, 0), of("fence.i"), i("jalr", 0, 14, 0)];
        machine.host.put_code(PLACES[0] + 0x100, &store);
        let both = |number| u64::from(addition(number)) << 32 | u64::from(addition(number));
        machine.host.put_code(PLACES[0] + 4092, &[addition(1)]);
        machine
            .host
            .put_code(PLACES[1], &[addition(1), of("ecall")]);
        for number in 1..8 {
            machine.hart.x[12] = both(number);
            machine.hart.x[13] = alias - 4;
            machine.hart.x[14] = next - 4;
            for pc in [CODE + 0x100, next - 4, next - 4] {
                machine.hart.x[10] = 0;
                machine.hart.pc = pc;
                machine.go_on(&mut blocks, u64::MAX);
                assert_eq!(machine.hart.x[10], 2 * u64::from(number.cast_unsigned()));
            }
        }
    });
}

#[test]
fn a_fence_of_one_address_means_its_whole_leaf() {
    const LARGE: u64 = 0x60_0000;
    with_blocks(|mut machine, mut blocks| {
        let root = machine.hart.csrs.satp << 12;
        let leaf = machine.host.map(root, 3, 1, LARGE, RAM, V | R | X | G | A);
        machine.host.put_code(PLACES[1], &program(2));
        let offset = PLACES[0] - RAM;
        let run = |machine: &mut Machine, blocks: &mut Blocks<'_>| {
            machine.hart.x[10] = 0;
            machine.hart.pc = LARGE + offset;
            machine.go_on(blocks, u64::MAX);
            machine.hart.x[10] / u64::from(ROUNDS.cast_unsigned())
        };
        assert_eq!(run(&mut machine, &mut blocks), 1);
        assert_eq!(run(&mut machine, &mut blocks), 1);
        // The leaf becomes a table, in which the page of the code is another.
        let table = machine.host.take_page();
        let entry = PLACES[1] >> 12 << 10 | V | R | X | G | A;
        machine.host.store(table + offset / 4096 * 8, 8, entry);
        machine.host.store(leaf, 8, table >> 12 << 10 | V);
        let other = LARGE + 0x10_0000;
        machine.hart.drop_translations(Some(other), None);
        assert_eq!(run(&mut machine, &mut blocks), 2);
    });
}

/// A program that looks for an interrupt before it uses its stack.
#[test]
fn an_interrupt_that_still_waits_leaves_the_stack_to_a_check() {
    const SSTATUS: i32 = 0x100;
    with_blocks(|mut machine, mut blocks| {
        let own = |number: u64| 0x100 * number + 7;
        for word in 0..64 {
            machine.host.store(DATA_PLACES[0] + 8 * word, 8, own(word));
        }
        let other = [i("ld", 13, 2, 0), i("ld", 14, 2, 8), of("ecall")];
        machine.host.put_code(PLACES[0] + 0x200, &other);
        let program = [
            i("csrrs", 0, 12, SSTATUS),
            i("ld", 13, 2, 0),
            i("ld", 14, 2, 8),
            of("ecall"),
        ];
        machine.host.put_code(PLACES[0], &program);
        machine.hart.csrs.sie = 1 << 1;
        machine.hart.csrs.software_interrupt = true;
        machine.hart.x[12] = 0;
        for _ in 0..4 {
            for (pc, first) in [(CODE + 0x200, 20), (CODE, 2)] {
                machine.hart.x[2] = DATA + 8 * first;
                machine.hart.pc = pc;
                machine.go_on(&mut blocks, u64::MAX);
                let loaded = [machine.hart.x[13], machine.hart.x[14]];
                assert_eq!(loaded, [own(first), own(first + 1)]);
            }
        }
    });
}

/// Linux's linear map: one leaf maps all memory. Code changes by it, and by a fence takes effect.
#[test]
fn a_window_moves_and_code_changes_by_it() {
    const WINDOW: u64 = 0xc000_0000;
    with_blocks(|mut machine, mut blocks| {
        let root = machine.hart.csrs.satp << 12;
        let flags = V | R | W | G | A | D;
        let leaf = machine.host.map(root, 3, 1, WINDOW, RAM, flags);
        let patches = [
            i("ld", 15, 16, 0),
            s("sw", 12, 13, 4),
            of("fence.i"),
            i("jalr", 0, 14, 0),
        ];
        machine.host.put_code(PLACES[0] + 0x100, &patches);
        machine.host.store(DATA_PLACES[0], 8, 77);
        // The page has translated code before the window is found.
        for _ in 0..3 {
            assert_eq!(machine.run(&mut blocks), 1);
        }
        for number in 1..12 {
            machine.hart.x[12] = WINDOW + (PLACES[0] - RAM);
            machine.hart.x[13] = addition(number).into();
            machine.hart.x[14] = CODE;
            machine.hart.x[16] = WINDOW + (DATA_PLACES[0] - RAM);
            let before = machine.hart.x[10];
            machine.hart.pc = CODE + 0x100;
            machine.go_on(&mut blocks, u64::MAX);
            let added = (machine.hart.x[10] - before) / u64::from(ROUNDS.cast_unsigned());
            assert_eq!(added, u64::from(number.cast_unsigned()));
            assert_eq!(machine.hart.x[15], 77);
        }
        // The leaf becomes a table, in which the data is elsewhere.
        let table = machine.host.take_page();
        for page in 0..16 {
            let place = match RAM + 4096 * page {
                place if place == DATA_PLACES[0] => DATA_PLACES[1],
                place => place,
            };
            machine
                .host
                .store(table + 8 * page, 8, place >> 12 << 10 | flags);
        }
        machine.host.store(leaf, 8, table >> 12 << 10 | V);
        machine.host.store(DATA_PLACES[1], 8, 78);
        machine.hart.drop_translations(Some(WINDOW), None);
        machine.hart.pc = CODE + 0x100;
        machine.go_on(&mut blocks, u64::MAX);
        assert_eq!(machine.hart.x[15], 78);
    });
}

/// Harts with different tables take turns while a page of code is missing in all of them.
#[test]
fn a_missing_page_does_not_stop_translation_for_ever() {
    const LOST: u64 = 0x50_0000;
    with_blocks(|mut machine, mut blocks| {
        let mode = machine.hart.csrs.satp >> 60 << 60;
        let roots = [machine.hart.csrs.satp << 12, machine.host.take_page()];
        let map = |machine: &Machine, root, address, place| {
            machine
                .host
                .map(root, 3, 0, address, place, V | R | X | G | A)
        };
        map(&machine, roots[1], CODE, PLACES[0]);
        let lost = map(&machine, roots[0], LOST, PLACES[1]);
        machine.host.put_code(PLACES[1], &program(1));
        for pc in [CODE, LOST] {
            for _ in 0..3 {
                machine.hart.pc = pc;
                machine.go_on(&mut blocks, u64::MAX);
            }
        }
        machine.host.store(lost, 8, 0);
        machine.hart.drop_translations(None, None);
        let mut words = 0;
        for turn in 0..100 {
            machine.hart.csrs.satp = mode | roots[turn % 2] >> 12;
            machine.hart.pc = CODE;
            words = machine.go_on(&mut blocks, u64::MAX);
        }
        assert!(words > 0, "all is interpreted");
    });
}
