//! Blocks whose instructions lie in one line of memory.

use poorwill_translate::{Blocks, Host, Options};

use crate::directed::{CODE, Machine, PLACES, program, with};

/// Runs a test after the program.
fn warmed(test: fn(Machine, Blocks<'_>)) {
    with(Options::default(), move |mut machine, mut blocks| {
        assert_eq!(machine.run(&mut blocks), 1);
        test(machine, blocks);
    });
}

/// Begins another lending.
fn lend(machine: &mut Machine, blocks: &mut Blocks<'_>) {
    machine.hart.forget();
    blocks.begin(&machine.host);
}

#[test]
fn blocks_beside_a_change_stay() {
    warmed(|mut machine, mut blocks| {
        lend(&mut machine, &mut blocks);
        assert_eq!(machine.run(&mut blocks), 1);
        let [made, ..] = blocks.sizes();
        // The program has 20 bytes of the first line's 32.
        for offset in (24..64).step_by(8) {
            machine.host.store(PLACES[0] + offset, 8, offset);
            lend(&mut machine, &mut blocks);
            assert_eq!(machine.run(&mut blocks), 1);
        }
        assert_eq!(blocks.sizes()[0], made, "blocks are made anew");
    });
}

#[test]
fn a_change_drops_each_block_with_the_word() {
    warmed(|mut machine, mut blocks| {
        // Blocks that begin at each instruction.
        for at in [0, 4, 8, 12] {
            machine.hart.x[11] = 1;
            machine.hart.pc = CODE + at;
            machine.go_on(&mut blocks, u64::MAX);
        }
        for number in 2..6 {
            machine.host.put_code(PLACES[0], &program(number));
            lend(&mut machine, &mut blocks);
            for at in [4, 0] {
                machine.hart.x[11] = 1;
                machine.hart.pc = CODE + at;
                let before = machine.hart.x[10];
                machine.go_on(&mut blocks, u64::MAX);
                let rounds = if at == 0 { 50 } else { 1 };
                let added = u64::from(number.cast_unsigned()) * rounds;
                assert_eq!(machine.hart.x[10] - before, added);
            }
        }
    });
}

/// A block is made of memory that has changed, unseen, since others were: they have old instructions.
#[test]
fn a_new_block_drops_older_ones_of_its_words() {
    with(Options::default(), |mut machine, mut blocks| {
        machine.hart.x[11] = 1;
        machine.hart.pc = CODE + 4;
        machine.go_on(&mut blocks, u64::MAX);
        assert_eq!(machine.hart.x[10], 1);
        machine.host.put_code(PLACES[0], &program(2));
        machine.hart.forget();
        assert_eq!(machine.run(&mut blocks), 2);
    });
}
