//! The OS's text is closed to stores of translated code: whatever patches it is seen at the next
//! execution.

use poorwill_memory::PhysRange;
use poorwill_translate::fake::RAM;
use poorwill_translate::fake_core::REGION;
use poorwill_translate::{Blocks, Host};

use crate::common::flags::{A, D, G, R, V, W, X};
use crate::common::{i, of, s};
use crate::directed::{CODE, Machine, PLACES, ROUNDS, addition, program, with_blocks};

/// Linux's linear map: one leaf maps all memory.
const WINDOW: u64 = 0xc000_0000;
const PAGE: u64 = 4096;

/// An instruction that does nothing.
fn nothing() -> u32 {
    i("addi", 0, 0, 0)
}

/// A page of text with the program, and at 0x100 a function that stores to an address, and runs the
/// program.
fn machine(mut machine: Machine, fence: u32) -> Machine {
    let root = machine.root();
    let flags = V | R | W | G | A | D;
    machine.host.map(root, 3, 1, WINDOW, RAM, flags);
    let patches = [
        i("ld", 15, 12, 8),
        s("sw", 12, 13, 4),
        fence,
        i("jalr", 0, 14, 0),
    ];
    machine.host.put_code(PLACES[0] + 0x100, &patches);
    machine.hart.csrs.stvec = CODE;
    machine
}

/// Patches the addition by the window, and runs the program. Returns what it adds.
fn patch(machine: &mut Machine, blocks: &mut Blocks<'_>, number: u32) -> u64 {
    machine.hart.x[12] = WINDOW + (PLACES[0] - RAM);
    machine.hart.x[13] = addition(number.cast_signed()).into();
    machine.hart.x[14] = CODE;
    let before = machine.hart.x[10];
    machine.hart.pc = CODE + 0x100;
    machine.go_on(blocks, u64::MAX);
    (machine.hart.x[10] - before) / u64::from(ROUNDS.cast_unsigned())
}

fn sees_patches(given: Machine, mut blocks: Blocks<'_>, fence: u32) {
    let mut machine = machine(given, fence);
    for number in 1..20 {
        let expected = u64::from(number);
        assert_eq!(patch(&mut machine, &mut blocks, number), expected);
        assert_eq!(machine.run(&mut blocks), expected);
    }
    let page = PhysRange::new(PLACES[0], PAGE);
    assert_eq!(machine.host.text.get(), page);
}

#[test]
fn text_patched_by_a_window_is_seen_after_a_fence() {
    with_blocks(|machine, blocks| sees_patches(machine, blocks, of("fence.i")));
}

#[test]
fn text_patched_by_a_window_is_seen_without_a_fence() {
    with_blocks(|machine, blocks| sees_patches(machine, blocks, nothing()));
}

#[test]
fn a_core_that_cannot_close_text_compares_it_at_fences() {
    with_blocks(|given, mut blocks| {
        let mut machine = machine(given, of("fence.i"));
        machine.host.protects.set(false);
        for number in 1..20 {
            let expected = u64::from(number);
            assert_eq!(patch(&mut machine, &mut blocks, number), expected);
        }
        assert_eq!(machine.host.text.get(), PhysRange::EMPTY);
    });
}

/// A store that faults is interpreted afterwards, and faults no more.
#[test]
fn a_store_to_text_faults_once() {
    with_blocks(|given, mut blocks| {
        let mut machine = machine(given, nothing());
        for _ in 0..8 {
            patch(&mut machine, &mut blocks, 1);
        }
        let [made, ..] = blocks.sizes();
        for _ in 0..50 {
            assert_eq!(patch(&mut machine, &mut blocks, 1), 1);
        }
        assert_eq!(blocks.sizes()[0], made, "blocks are made anew");
    });
}

/// The text's page becomes another one, and the first one takes stores again.
#[test]
fn text_that_moves_is_closed_where_it_is() {
    with_blocks(|given, mut blocks| {
        let mut machine = machine(given, nothing());
        patch(&mut machine, &mut blocks, 1);
        for turn in 0..6 {
            let place = PLACES[turn % 2];
            machine.host.put_code(place, &program(1));
            let leaf = place >> 12 << 10 | V | R | X | G | A;
            machine.host.store(machine.leaves[0], 8, leaf);
            let address = (turn < 3).then_some(CODE);
            machine.hart.drop_translations(address, None);
            assert_eq!(machine.run(&mut blocks), 1);
            assert_eq!(machine.host.text.get(), PhysRange::new(place, PAGE));
        }
    });
}

/// Maps a leaf of 2 MiB as text, with the program, and runs that there. Returns what is closed.
fn closed_by(machine: &mut Machine, blocks: &mut Blocks<'_>, flags: u64) -> PhysRange {
    const LARGE: u64 = 0x60_0000;
    let root = machine.root();
    machine.host.map(root, 3, 1, LARGE, RAM, flags);
    machine.hart.csrs.stvec = LARGE;
    machine.hart.drop_translations(None, None);
    for number in 1..12 {
        let expected = u64::from(number);
        assert_eq!(patch(machine, blocks, number), expected);
    }
    machine.host.text.get()
}

#[test]
fn text_may_be_all_memory_or_none() {
    with_blocks(|given, mut blocks| {
        let mut machine = machine(given, of("fence.i"));
        // More than the memory: its last page is none.
        let closed = closed_by(&mut machine, &mut blocks, V | R | X | G | A);
        assert_eq!(closed, PhysRange::EMPTY);
        // A writable leaf has data, too.
        let flags = V | R | W | X | G | A | D;
        assert_eq!(
            closed_by(&mut machine, &mut blocks, flags),
            PhysRange::EMPTY
        );
        // All of the memory, page by page, beginning with its end.
        let root = machine.root();
        const SMALL: u64 = 0x80_0000;
        let all: Vec<u64> = (RAM..).step_by(4096).take(40).collect();
        for (number, place) in all.iter().enumerate() {
            let address = SMALL + PAGE * number as u64;
            (machine.host).map(root, 3, 0, address, *place, V | R | X | G | A);
        }
        machine.hart.csrs.stvec = SMALL + 20 * PAGE;
        machine.hart.drop_translations(None, None);
        for number in 1..12 {
            let expected = u64::from(number);
            assert_eq!(patch(&mut machine, &mut blocks, number), expected);
        }
        let closed = machine.host.text.get();
        assert_eq!(closed, PhysRange::new(RAM, 40 * PAGE));
    });
}

#[test]
fn text_is_not_where_the_os_has_no_memory() {
    with_blocks(|given, mut blocks| {
        let mut machine = machine(given, of("fence.i"));
        const LAST: u64 = 0x70_0000;
        let root = machine.root();
        let flags = V | R | X | G | A;
        // Behind the page of text, the region of translated code follows.
        machine.host.map(root, 3, 0, LAST, PLACES[1], flags);
        machine.host.map(root, 3, 0, LAST + PAGE, REGION, flags);
        for (stvec, closed) in [
            (LAST, PhysRange::new(PLACES[1], PAGE)),
            (LAST + PAGE, PhysRange::EMPTY),
            (0x71_0000, PhysRange::EMPTY),
            (u64::MAX, PhysRange::EMPTY),
        ] {
            machine.hart.csrs.stvec = stvec;
            machine.hart.drop_translations(None, None);
            assert_eq!(patch(&mut machine, &mut blocks, 3), 3);
            assert_eq!(machine.host.text.get(), closed, "{stvec:#x}");
        }
    });
}
