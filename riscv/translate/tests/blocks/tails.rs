//! How often the same instruction is translated.

use poorwill_isa::encode;

use crate::common::{i, of};
use crate::directed::{CODE, PLACES, with_blocks};

/// Parts of the function.
const PARTS: i32 = 6;

/// A loop of parts that branch by a bit of the round, and join again.
fn function() -> Vec<u32> {
    let part = |number: i32| {
        [
            i("andi", 11, 12, 1 << number),
            encode::b(of("beq"), 11, 0, 12),
            i("addi", 10, 10, 1),
            encode::j(of("jal"), 0, 8),
            i("addi", 10, 10, 2),
        ]
    };
    let mut code: Vec<u32> = (0..PARTS).flat_map(part).collect();
    code.push(i("addi", 12, 12, -1));
    let back = -4 * code.len() as i32;
    code.push(encode::b(of("bne"), 12, 0, back));
    code.push(of("ecall"));
    code
}

#[test]
fn few_instructions_are_translated_twice() {
    with_blocks(|mut machine, mut blocks| {
        let code = function();
        machine.host.put_code(PLACES[0], &code);
        let rounds = 1 << PARTS;
        machine.hart.x[10] = 0;
        machine.hart.x[12] = rounds;
        machine.hart.pc = CODE;
        machine.go_on(&mut blocks, u64::MAX);
        // Each part adds 1 in half of the rounds, and 2 in the others.
        assert_eq!(machine.hart.x[10], 3 * rounds / 2 * PARTS as u64);
        let translated = blocks.halves() / 2;
        // The `ecall` is interpreted. A join may be reached first from above, and then by a jump.
        let known = code.len() - 1;
        assert!(
            4 * translated <= 5 * known,
            "{translated} of {known} instructions"
        );
    });
}
