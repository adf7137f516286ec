//! The decoder: any bits decode to an instruction whose encoding decodes to it again, or are
//! unknown.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out intentionally"
)]

use poorwill_isa::{Direction, Format, Instruction, Operation, encode, expand, is_long};

poorwill_fuzz::target!(max_len = 256, run);

fn run(bytes: &[u8]) {
    let words = bytes.chunks_exact(4);
    for word in words.map(|word| word.try_into().expect("four bytes")) {
        check(u32::from_le_bytes(word));
    }
}

fn check(bits: u32) {
    let decoded = Instruction::decode(bits);
    if !is_long(bits) {
        let expanded = expand(bits as u16);
        assert!(expanded.is_none_or(is_long), "{bits:#x}");
        let long = expanded.and_then(Instruction::decode);
        // Each expansion is an instruction.
        assert_eq!(long.is_some(), expanded.is_some(), "{bits:#x}");
        let short = long.map(|long| Instruction { length: 2, ..long });
        assert_eq!(decoded, short, "{bits:#x}");
    }
    let Some(decoded) = decoded else { return };
    let again = Instruction::decode(encoded(&decoded)).map(|again| Instruction {
        length: decoded.length,
        ..again
    });
    assert_eq!(again, Some(decoded), "{bits:#x}");
    check_access(&decoded);
}

/// The instruction's own bits, but for rounding modes and the order of atomic operations, which an
/// [`Instruction`] does not have.
fn encoded(decoded: &Instruction) -> u32 {
    let form = &poorwill_isa::FORMS[decoded.operation as usize];
    let [rd, rs1, rs2, rs3] = [decoded.rd, decoded.rs1, decoded.rs2, decoded.rs3].map(u32::from);
    let (value, immediate) = (form.value, decoded.immediate);
    match form.format {
        // Registers that the operation lacks are fixed bits.
        Format::R => encode::r(value, rd, rs1, rs2) | rs3 << 27,
        Format::I | Format::Shift | Format::Csr => encode::i(value, rd, rs1, immediate),
        Format::S => encode::s(value, rs1, rs2, immediate),
        Format::B => encode::b(value, rs1, rs2, immediate),
        Format::U => encode::u(value, rd, immediate),
        Format::J => encode::j(value, rd, immediate),
    }
}

fn check_access(decoded: &Instruction) {
    let Some(access) = decoded.operation.memory_access() else {
        return;
    };
    assert!([1, 2, 4, 8].contains(&access.bytes));
    let is_store = [Operation::Sb, Operation::Sh, Operation::Sw, Operation::Sd];
    assert_eq!(
        access.direction == Direction::Store,
        is_store.contains(&decoded.operation)
    );
    // Bits above the loaded ones have no effect.
    let noise = u64::MAX << (8 * access.bytes - 1) << 1;
    assert_eq!(access.extended(0x80), access.extended(0x80 | noise));
}
