//! Check mode: a wrong translation is found, and what is no fault of translated code is not.

use std::cell::Cell;

use poorwill_isa::encode;
use poorwill_translate::fake::FakeHost;
use poorwill_translate::fake_core::FakeCore;
use poorwill_translate::{Blocks, Difference, Host, Options, Stop, Watch, What};

use crate::beside::Beside;
use crate::common::{i, of, s};
use crate::directed::{CODE, DATA, DATA_PLACES, Machine, PLACES, addition, with};

/// Scratch registers of translated code, and one with an address.
const A: u32 = 5;
const B: u32 = 7;
const C: u32 = 31;

const SSTATUS: i32 = 0x100;

fn with_checks(test: fn(Machine, Blocks<'_>)) {
    let options = Options {
        counts: true,
        checks: true,
        ..Options::default()
    };
    with(options, test);
}

/// Adds, stores, changes SIE, and branches.
fn program() -> [u32; 6] {
    [
        addition(1),
        s("sd", 13, 10, 8),
        i("csrrsi", 0, 2, SSTATUS),
        i("csrrci", 0, 2, SSTATUS),
        encode::b(of("beq"), 10, 0, -16),
        of("ecall"),
    ]
}

/// Runs the program until it is translated, replaces words, and runs it again. The words must be there.
fn stop_after(machine: &mut Machine, blocks: &mut Blocks<'_>, words: [u32; 2]) -> Stop {
    machine.host.put_code(PLACES[0], &program());
    for _ in 0..3 {
        machine.hart.x[13] = DATA;
        machine.hart.x[10] = 4;
        machine.hart.pc = CODE;
        machine.go_on(blocks, u64::MAX);
        assert_eq!(machine.host.load(DATA_PLACES[0] + 8, 8), 5);
    }
    assert!(blocks.replace(words[0], words[1]) > 0, "{words:x?}");
    machine.hart.x[10] = 4;
    machine.hart.pc = CODE;
    let (stop, _) = machine.run_until(blocks, u64::MAX);
    blocks.replace(words[1], words[0]);
    stop
}

fn difference(what: What, translated: u64, interpreted: u64) -> Stop {
    difference_of(CODE, what, translated, interpreted)
}

fn difference_of(block: u64, what: What, translated: u64, interpreted: u64) -> Stop {
    Stop::Differs(Difference {
        block,
        what,
        translated,
        interpreted,
    })
}

#[test]
fn a_wrong_register_is_found() {
    with_checks(|mut machine, mut blocks| {
        let stop = stop_after(&mut machine, &mut blocks, [addition(1), addition(3)]);
        assert_eq!(stop, difference(What::Register(10), 7, 5));
        let Stop::Differs(difference) = stop else {
            unreachable!("it was compared");
        };
        assert_eq!(
            difference.to_string(),
            "the block of 0x100000 is translated wrongly: x10 is 0x7 after it, and 0x5 after the \
             interpreter"
        );
    });
}

#[test]
fn a_wrong_store_is_found() {
    with_checks(|mut machine, mut blocks| {
        let own = s("sd", C, 10, 0);
        let at = DATA_PLACES[0] + 8;
        machine.hart.x[11] = 0x1234;
        let stop = stop_after(&mut machine, &mut blocks, [own, s("sd", C, 11, 0)]);
        assert_eq!(stop, difference(What::Memory(at), 0x34, 5));
        // The place of the former store.
        machine.host.store(at, 8, 0);
        let stop = stop_after(&mut machine, &mut blocks, [own, s("sb", C, 10, 1)]);
        assert_eq!(stop, difference(What::Memory(at + 1), 5, 0));
    });
}

#[test]
fn a_wrong_status_is_found() {
    with_checks(|mut machine, mut blocks| {
        let words = [i("andi", B, A, !2), i("ori", B, A, 2)];
        let stop = stop_after(&mut machine, &mut blocks, words);
        // The store was interpreted at first, so that a block begins after it.
        assert_eq!(stop, difference_of(CODE + 8, What::Status, 2, 0));
    });
}

#[test]
fn a_wrong_branch_is_found() {
    with_checks(|mut machine, mut blocks| {
        machine.host.put_code(PLACES[0], &program());
        let mut run = |blocks: &mut Blocks<'_>| {
            machine.hart.pc = CODE;
            // The opposite branch ends, too.
            machine.hart.x[10] = 4_u64.wrapping_neg();
            machine.hart.x[13] = DATA;
            machine.run_until(blocks, u64::MAX).0
        };
        for _ in 0..3 {
            assert_eq!(run(&mut blocks), Stop::Call);
        }
        // The branch goes to the words at the end of the block. Dropped blocks have one, too.
        let replaced = (0..64).map(|words: i32| {
            let branch = |name| encode::b(of(name), 10, 0, 4 * words);
            blocks.replace(branch("beq"), branch("bne"))
        });
        assert!(replaced.sum::<usize>() > 0);
        let stop = run(&mut blocks);
        let expected = difference_of(CODE + 8, What::Address, CODE, CODE + 20);
        assert_eq!(stop, expected);
    });
}

#[test]
fn memory_that_a_device_changes_is_no_difference() {
    with_checks(|mut machine, mut blocks| {
        // It waits for the device, and leaves its block each time.
        let program = [
            i("ld", 10, 13, 0),
            i("addi", 11, 0, 30),
            encode::b(of("bltu"), 10, 11, -8),
            of("ecall"),
        ];
        machine.host.put_code(PLACES[0], &program);
        machine.hart.x[13] = DATA;
        machine.hart.pc = CODE;
        let Machine { host, hart, .. } = &mut machine;
        let rounds = Cell::new(0);
        // A device stores to memory at each entry.
        let mut core = Beside {
            core: FakeCore::new(host, u64::MAX),
            before: |host: &FakeHost, _, _: Watch| {
                rounds.set(rounds.get() + 1);
                host.store(DATA_PLACES[0], 8, rounds.get());
                None
            },
        };
        let stop = hart.run_translated(&mut blocks, &mut core, &*host, u64::MAX);
        assert_eq!(stop, Stop::Call);
        assert!(hart.x[10] >= 30);
        assert!(rounds.get() >= 30);
    });
}
