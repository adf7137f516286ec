//! An instruction in two pages of the OS's text.

use poorwill_memory::PhysRange;
use poorwill_translate::fake::RAM;
use poorwill_translate::{Blocks, Host, Options};

use crate::common::flags::{A, D, G, R, V, W, X};
use crate::common::{i, of, s};
use crate::directed::{Machine, ROUNDS, addition, program, with};

/// A leaf of 2 MiB maps the text.
const TEXT: u64 = 0x60_0000;
const LEAF: u64 = 2 << 20;
/// Linux's linear map.
const WINDOW: u64 = 0xc000_0000;
const PAGE: u64 = 4096;

/// The program begins here in the text, so that its addition is in two pages.
const START: u64 = 0x1ffa;
const ADDITION: u64 = START + 4;
/// A function that stores to an address, and runs the program.
const PATCH: u64 = 0x3000;

fn machine() -> Machine {
    let mut machine = Machine::with_pages(1024);
    let root = machine.root();
    let host = &machine.host;
    host.map(root, 3, 1, TEXT, RAM, V | R | X | G | A);
    host.map(root, 3, 2, WINDOW, RAM, V | R | W | G | A | D);
    host.put_code(RAM + START, &program(1));
    let patch = [s("sh", 12, 13, 0), of("fence.i"), i("jalr", 0, 14, 0)];
    host.put_code(RAM + PATCH, &patch);
    machine.hart.csrs.stvec = TEXT;
    machine
}

fn options() -> Options {
    Options {
        counts: true,
        ..Options::default()
    }
}

fn rounds() -> u64 {
    ROUNDS.cast_unsigned().into()
}

/// Runs from an address on; returns what the program adds.
fn added_from(machine: &mut Machine, blocks: &mut Blocks<'_>, at: u64) -> u64 {
    let before = machine.hart.x[10];
    machine.hart.pc = TEXT + at;
    machine.go_on(blocks, u64::MAX);
    (machine.hart.x[10] - before) / rounds()
}

/// Runs the program, and returns what it adds, and how many of its instructions are interpreted.
fn run(machine: &mut Machine, blocks: &mut Blocks<'_>) -> (u64, u64) {
    machine.hart.counts = Default::default();
    let added = added_from(machine, blocks, START);
    let counts = machine.hart.counts;
    (added, counts.instructions - counts.translated)
}

/// Runs a test after the program, which is translated as a whole by then.
fn warmed(test: impl FnOnce(Machine, Blocks<'_>) + Send + 'static) {
    with(options(), |_, mut blocks| {
        let mut machine = machine();
        run(&mut machine, &mut blocks);
        machine.hart.forget();
        blocks.begin(&machine.host);
        run(&mut machine, &mut blocks);
        assert_eq!(run(&mut machine, &mut blocks), (1, 0));
        test(machine, blocks);
    });
}

/// The upper half of an addition, which is in the second page.
fn upper(number: i32) -> u64 {
    (addition(number) >> 16).into()
}

#[test]
fn it_is_translated() {
    warmed(|_, _| {});
}

/// Patches the addition's second half by the window, and runs the program. Returns what it adds.
fn patched(machine: &mut Machine, blocks: &mut Blocks<'_>, number: u64) -> u64 {
    machine.hart.x[12] = WINDOW + ADDITION + 2;
    machine.hart.x[13] = upper(number as i32);
    machine.hart.x[14] = TEXT + START;
    added_from(machine, blocks, PATCH)
}

#[test]
fn a_patch_of_its_second_page_is_seen() {
    warmed(|mut machine, mut blocks| {
        for number in 2..20 {
            assert_eq!(patched(&mut machine, &mut blocks, number), number);
            assert_eq!(run(&mut machine, &mut blocks).0, number);
        }
    });
}

#[test]
fn a_change_between_lendings_is_seen() {
    warmed(|mut machine, mut blocks| {
        for number in 2..6 {
            machine.host.store(RAM + ADDITION + 2, 2, upper(number));
            machine.hart.forget();
            blocks.begin(&machine.host);
            let number = number.cast_unsigned().into();
            assert_eq!(run(&mut machine, &mut blocks).0, number);
        }
    });
}

/// The leaf becomes a table, whose second page with the instruction is elsewhere.
fn moves(mut machine: Machine, mut blocks: Blocks<'_>, address: Option<u64>) {
    let host = &machine.host;
    let other = RAM + LEAF + 0x2000;
    for at in (0..PAGE).step_by(8) {
        host.store(other + at, 8, host.load(RAM + 0x2000 + at, 8));
    }
    host.store(other, 2, upper(7));
    let table = host.take_page();
    for page in 0..LEAF / PAGE {
        let place = if page == 2 { other } else { RAM + PAGE * page };
        let leaf = place >> 12 << 10 | V | R | X | G | A;
        host.store(table + 8 * page, 8, leaf);
    }
    let middle = host.load(machine.root(), 8) >> 10 << 12;
    host.store(middle + 8 * (TEXT >> 21), 8, table >> 12 << 10 | V);
    machine.hart.drop_translations(address, None);
    assert_eq!(run(&mut machine, &mut blocks).0, 7);
}

#[test]
fn a_second_page_that_moves_is_seen() {
    for address in [None, Some(TEXT + 0x2000)] {
        warmed(move |machine, blocks| moves(machine, blocks, address));
    }
}

/// The text ends with the first page, and stores to the second are not seen any more.
#[test]
fn text_that_ends_there_is_compared() {
    warmed(|mut machine, mut blocks| {
        machine.host.protects.set(false);
        let root = machine.root();
        // The text is elsewhere now, and no core closes it.
        machine
            .host
            .map(root, 3, 0, 0x80_0000, RAM + LEAF, V | R | X | G | A);
        machine.hart.csrs.stvec = 0x80_0000;
        machine.hart.drop_translations(None, None);
        for number in 2..8 {
            assert_eq!(patched(&mut machine, &mut blocks, number), number);
        }
    });
}

/// A core that cannot close the text leaves the instruction to the interpreter.
#[test]
fn it_is_interpreted_in_open_text() {
    with(options(), |_, mut blocks| {
        let mut machine = machine();
        machine.host.protects.set(false);
        for _ in 0..4 {
            let (added, interpreted) = run(&mut machine, &mut blocks);
            assert_eq!(added, 1);
            assert!(interpreted >= rounds());
        }
        assert_eq!(machine.host.text.get(), PhysRange::EMPTY);
    });
}
