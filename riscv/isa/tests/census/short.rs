//! All compressed instructions.

use std::collections::BTreeSet;

use poorwill_isa::Instruction;

use crate::opcodes::Fields;
use crate::{compressed, fields_of, mnemonic, raki};

fn shorts() -> impl Iterator<Item = u16> {
    (0..=u16::MAX).filter(|bits| bits & 3 != 3)
}

#[test]
fn each_half_word_is_what_the_model_says() {
    let mut seen = BTreeSet::new();
    for bits in shorts() {
        let own = Instruction::decode(bits.into());
        let model = compressed::decode(bits);
        let (Some(own), Some(model)) = (own, &model) else {
            let name = model.map(|model| model.name);
            assert_eq!((own, name), (None, None), "{bits:#x}");
            continue;
        };
        assert_eq!(mnemonic(&own), model.mnemonic, "{bits:#x}");
        assert_eq!(own.length, 2, "{bits:#x}");
        assert_eq!(fields_of(&own), model.fields, "{bits:#x} {}", model.name);
        seen.insert(model.name);
    }
    assert_eq!(seen, compressed::names().collect(), "each line is used");
}

/// Why `raki` differs at a half-word; `None` where it should not.
fn explanation(bits: u16, own: Option<&Instruction>, read: Option<&str>) -> Option<&'static str> {
    let name = own.map(mnemonic);
    match (name, read) {
        (Some("fld" | "fsd"), _) => Some("raki lacks D"),
        (Some(_), None) if bits & 0xe003 == 0x8000 => Some("raki lacks Zcb: loads and stores"),
        (Some(_), None) if bits & 0xfc03 == 0x9c01 => Some("raki lacks Zcb: operations"),
        (Some("add"), Some("c.ebreak")) => Some("raki takes the hint c.add x0 for ebreak"),
        (None, Some(_)) => reserved(bits),
        _ => None,
    }
}

/// Reserved encodings that raki reads.
fn reserved(bits: u16) -> Option<&'static str> {
    match bits & 0xe003 {
        0x0000 => Some("raki reads c.addi4spn of zero"),
        0x2001 => Some("raki reads c.addiw of x0"),
        0x6001 => Some("raki reads c.lui and c.addi16sp of zero"),
        0x4002 | 0x6002 => Some("raki reads c.lwsp and c.ldsp of x0"),
        0x8002 => Some("raki reads c.jr of x0"),
        _ => None,
    }
}

#[test]
fn raki_reads_each_half_word_alike_but_for_named_ones() {
    let mut reasons = BTreeSet::new();
    let mut compared = 0;
    for bits in shorts() {
        let own = Instruction::decode(bits.into());
        let read = raki::read(bits);
        let name = read.as_ref().map(raki::name_of);
        if own.is_none() && read.is_none() {
            continue;
        }
        if let Some(reason) = explanation(bits, own.as_ref(), name.as_deref()) {
            reasons.insert(reason);
            continue;
        }
        let (Some(own), Some(read), Some(name)) = (own, read, name) else {
            panic!("{bits:#x}: one of the two does not know it");
        };
        assert_eq!(raki::long_name(&name), mnemonic(&own), "{bits:#x}");
        compare(bits, &name, &fields_of(&own), &read);
        compared += 1;
    }
    println!("{compared} half-words like raki; differences: {reasons:#?}");
    assert!(compared > 38_000, "{compared}");
}

/// Of raki's fields some are absent, and the destination of a branch is its source.
fn compare(bits: u16, name: &str, own: &Fields, read: &::raki::Instruction) {
    let same = |read: Option<usize>, own: Option<u32>| {
        read.is_none_or(|read| own.is_none_or(|own| read == own as usize))
    };
    let is_branch = ["c.beqz", "c.bnez"].contains(&name);
    assert!(is_branch || same(read.rd, own.rd), "{bits:#x} {read:?}");
    // A move is an addition to x0, whose source raki names first.
    assert!(
        name == "c.mv" || same(read.rs1, own.rs1),
        "{bits:#x} {read:?}"
    );
    assert!(same(read.rs2, own.rs2), "{bits:#x} {read:?}");
    if let (Some(read), Some(own)) = (read.imm, own.immediate) {
        assert_eq!(read, own, "{bits:#x} {name}");
    }
}
