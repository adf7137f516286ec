//! The table of encodings, and `raki` as an oracle for the instructions that it knows.

use std::collections::BTreeSet;
use std::panic::{Location, RefUnwindSafe};
use std::sync::Once;

use poorwill_isa::{FORMS, Form, Format, Instruction, Operation, encode, expand};
use raki::{Decode, Isa};

/// Random instructions of each form.
const DRAWS: usize = 2000;

/// Forms that `raki` knows: RV64IMA, Zicsr, Zifencei, Zicboz, and some of S-mode's.
const KNOWN_TO_RAKI: usize = 97;

fn drawn(form: &Form) -> u32 {
    fastrand::u32(..) & !form.mask | form.value
}

/// The name of raki's operation, in the specification's spelling.
fn name_of(instruction: &raki::Instruction) -> String {
    let name = instruction.opc.to_string().to_lowercase();
    // One of its names ends with a comma.
    name.replace("_", ".").replace(",", "")
}

/// Raki's reading of an instruction; `None` for encodings that it does not know. It panics at some
/// of these.
fn raki(bits: impl Decode + Copy + RefUnwindSafe) -> Option<raki::Instruction> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_rakis = |place: &Location<'_>| place.file().contains("raki-");
            if !info.location().is_some_and(is_rakis) {
                before(info);
            }
        }));
    });
    std::panic::catch_unwind(|| bits.decode(Isa::Rv64).ok()).ok()?
}

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
fn each_form_decodes_to_its_operation() {
    for form in FORMS {
        for _ in 0..DRAWS {
            let bits = drawn(form);
            let decoded = Instruction::decode(bits).unwrap();
            let is_pause = decoded.operation == Operation::Pause;
            assert!(decoded.operation == form.operation || is_pause, "{bits:#x}");
            assert_eq!(decoded.length, 4);
        }
    }
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

#[test]
fn raki_reads_the_same() {
    let mut known = BTreeSet::new();
    let mut differences = Vec::new();
    for form in FORMS {
        for _ in 0..DRAWS {
            let bits = drawn(form);
            let Some(other) = raki(bits) else { continue };
            let own = Instruction::decode(bits).unwrap();
            if own.operation == Operation::Pause || name_of(&other) != form.mnemonic {
                differences.push((form.mnemonic, name_of(&other)));
                continue;
            }
            known.insert(form.mnemonic);
            // To raki a CSR's number is a source.
            let rs2 = match form.format {
                Format::Csr => usize::try_from(own.immediate).unwrap(),
                _ => own.rs2.into(),
            };
            let fields = [
                (other.rd, own.rd.into()),
                (other.rs1, own.rs1.into()),
                (other.rs2, rs2),
            ];
            for (theirs, ours) in fields {
                assert_eq!(theirs.unwrap_or(ours), ours, "{bits:#x}, {}", form.mnemonic);
            }
            // Raki leaves the low bits of U's immediate out.
            let shift = if form.format == Format::U { 12 } else { 0 };
            if let Some(immediate) = other.imm
                && form.format != Format::R
                && form.operation != Operation::Fence
            {
                let ours = match form.format {
                    Format::Csr => own.rs1.into(),
                    _ => own.immediate,
                };
                assert_eq!(immediate << shift, ours, "{bits:#x}, {}", form.mnemonic);
            }
        }
    }
    differences.sort();
    differences.dedup();
    assert_eq!(known.len(), KNOWN_TO_RAKI, "{known:?} {differences:?}");
}

/// What a compressed instruction stands for, by its name.
fn long_name(short: &str) -> &str {
    match short {
        "c.addi4spn" | "c.li" | "c.addi16sp" | "c.nop" => "addi",
        "c.lwsp" => "lw",
        "c.ldsp" => "ld",
        "c.swsp" => "sw",
        "c.sdsp" => "sd",
        "c.j" => "jal",
        "c.jr" => "jalr",
        "c.beqz" => "beq",
        "c.bnez" => "bne",
        "c.mv" => "add",
        other => other.trim_start_matches("c."),
    }
}

#[test]
fn raki_expands_compressed_instructions_likewise() {
    let mut compared = 0;
    for bits in (0..=u16::MAX).filter(|bits| bits & 3 != 3) {
        let other = raki(bits);
        let own = Instruction::decode(bits.into());
        // Reserved encodings are unknown to us alone, and Zcb and floating point to raki.
        let (Some(own), Some(other)) = (own, other) else {
            continue;
        };
        compared += 1;
        let name = name_of(&other);
        // A hint, `c.add` with x0, is an `ebreak` to raki.
        if name == "c.ebreak" && bits != 0x9002 {
            continue;
        }
        let mnemonic = FORMS[own.operation as usize].mnemonic;
        assert_eq!(long_name(&name), mnemonic, "{bits:#x}");
        if let Some(immediate) = other.imm {
            assert_eq!(immediate, own.immediate, "{bits:#x} {name}");
        }
        // Of raki's registers the destination of stores and branches, and implied ones, are absent.
        if let Some(rd) = other.rd.filter(|_| !["beq", "bne"].contains(&mnemonic)) {
            assert_eq!(rd, usize::from(own.rd), "{bits:#x} {name}");
        }
        if let Some(rs1) = other.rs1.filter(|_| name != "c.mv") {
            assert_eq!(rs1, usize::from(own.rs1), "{bits:#x} {name}");
        }
        if let Some(rs2) = other.rs2 {
            assert_eq!(rs2, usize::from(own.rs2), "{bits:#x} {name}");
        }
    }
    assert!(compared > 30_000, "{compared}");
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
