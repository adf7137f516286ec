//! The table of encodings, and samples. `census` compares both with other decoders.

use std::collections::BTreeSet;

use poorwill_isa::{FORMS, Instruction, Operation, encode, expand};

/// Random numbers of each format.
const DRAWS: usize = 2000;

#[test]
fn each_encoding_has_one_form() {
    for (place, form) in FORMS.iter().enumerate() {
        assert_eq!(form.value & !form.mask, 0, "{}", form.mnemonic);
        assert_eq!(form.operation as usize, place, "{}", form.mnemonic);
        for other in &FORMS[place + 1..] {
            let common = form.mask & other.mask;
            let is_disjoint = form.value & common != other.value & common;
            let is_pause =
                form.operation == Operation::Pause && other.operation == Operation::Fence;
            assert!(
                is_disjoint || is_pause,
                "{}, {}",
                form.mnemonic,
                other.mnemonic
            );
        }
    }
    let names: BTreeSet<_> = FORMS.iter().map(|form| form.mnemonic).collect();
    assert_eq!(names.len(), FORMS.len());
}

#[test]
fn other_words_are_unknown() {
    for _ in 0..1_000_000 {
        let bits = fastrand::u32(..) | 3;
        let found = FORMS.iter().find(|form| bits & form.mask == form.value);
        let decoded = Instruction::decode(bits).map(|decoded| decoded.operation);
        assert_eq!(decoded, found.map(|form| form.operation), "{bits:#x}");
    }
}

/// Known pairs, from the specification's listings and an assembler.
#[test]
fn samples() {
    for (short, long) in [
        (0x0001, 0x0000_0013),                 // c.nop
        (0x1141, 0xff01_0113),                 // addi sp, sp, -16
        (0x7139, 0xfc01_0113),                 // addi sp, sp, -64
        (0x0808, 0x0101_0513),                 // addi a0, sp, 16
        (0x8082, 0x0000_8067),                 // ret
        (0x9002, 0x0010_0073),                 // ebreak
        (0x6105, 0x0201_0113),                 // addi sp, sp, 32
        (0x67a1, 0x0000_87b7),                 // lui a5, 8
        (0x77fd, 0xffff_f7b7),                 // lui a5, -1
        (0x953e, 0x00f5_0533),                 // add a0, a0, a5
        (0x852e, 0x00b0_0533),                 // add a0, zero, a1
        (0x2505, 0x0015_051b),                 // addiw a0, a0, 1
        (0x9d1d, 0x40f5_053b),                 // subw a0, a0, a5
        (0xa001, 0x0000_006f),                 // j .
        (0x3508, 0x0285_3507),                 // fld fa0, 40(a0)
        (0xb422, encode::s(0x3027, 2, 8, 40)), // fsd fs0, 40(sp)
        (0x9d75, 0xfff5_4513),                 // c.not a0
        (0x9d61, 0x0ff5_7513),                 // c.zext.b a0
    ] {
        let wanted = if short == 0xb422 {
            encode::s(0x3027, 2, 8, 40)
        } else {
            long
        };
        assert_eq!(expand(short), Some(wanted), "{short:#x}");
    }
    for reserved in [0, 0x2001, 0x6101, 0x6001, 0x4002, 0x6002, 0x8002, 0x9c79] {
        assert_eq!(expand(reserved), None, "{reserved:#x}");
    }
}

#[test]
fn fields_come_back() {
    for _ in 0..DRAWS {
        let number = fastrand::i32(..);
        let check = |bits, immediate| {
            assert_eq!(
                Instruction::decode(bits).unwrap().immediate,
                immediate,
                "{bits:#x}"
            );
        };
        check(encode::i(0x13, 1, 2, number), number << 20 >> 20);
        check(encode::s(0x23, 1, 2, number), number << 20 >> 20);
        check(
            encode::b(0x63, 1, 2, number & !1),
            (number & !1) << 19 >> 19,
        );
        check(encode::u(0x37, 1, number), number & !0xfff);
        check(encode::j(0x6f, 1, number & !1), (number & !1) << 11 >> 11);
    }
    let decoded = Instruction::decode(encode::r(0x33, 5, 6, 7)).unwrap();
    assert_eq!((decoded.rd, decoded.rs1, decoded.rs2), (5, 6, 7));
}
