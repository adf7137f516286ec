//! Instructions that were decoded before.

use poorwill_isa::{Instruction, Operation};

/// Number of sets of entries, a power of two.
const SETS: usize = 128;
const WAYS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Entry {
    bits: u32,
    instruction: Instruction,
}

/// `nop`, which is right at each place.
const NOTHING: Entry = Entry {
    bits: Operation::Addi.encoding(),
    instruction: Instruction {
        operation: Operation::Addi,
        length: 4,
        rd: 0,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        immediate: 0,
    },
};

/// Decoded instructions by the hash of their bits; those of a set by their age, the newest first. Bits
/// have one meaning, so that entries stay right.
#[derive(Clone, Debug)]
pub(crate) struct DecodedInstructions([[Entry; WAYS]; SETS]);

impl DecodedInstructions {
    pub(crate) const fn new() -> Self {
        DecodedInstructions([[NOTHING; WAYS]; SETS])
    }

    /// Decodes the instruction with these bits; `None` if it is unknown.
    #[inline(always)]
    pub(crate) fn decode(&mut self, bits: u32) -> Option<&Instruction> {
        // Near 2^32 divided by the golden ratio.
        const FACTOR: u32 = 0x9e37_79b1;
        let hash = bits.wrapping_mul(FACTOR) >> (u32::BITS - SETS.ilog2());
        let set = &mut self.0[hash as usize];
        if set[0].bits == bits {
            return Some(&set[0].instruction);
        }
        if set[1].bits == bits {
            return Some(&set[1].instruction);
        }
        add(set, bits)
    }
}

#[inline(never)]
fn add(set: &mut [Entry; WAYS], bits: u32) -> Option<&Instruction> {
    let instruction = Instruction::decode(bits)?;
    set[1] = set[0];
    set[0] = Entry { bits, instruction };
    Some(&set[0].instruction)
}
