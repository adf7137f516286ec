//! Words of each opcode, `funct3` and upper twelve bits, with a random rest: what the decoder knows
//! and an oracle does not, and the reverse.

use std::collections::BTreeMap;

use poorwill_isa::{FORMS, Instruction};

use crate::{NOT_IN_RAKI, NOT_IN_SAIL, listed, mnemonic, raki, sail};

/// Names of an instruction, without dots: the decoder's and the oracle's. Empty if it is unknown.
type Names = (&'static str, String);

fn without_dots(name: &str) -> String {
    name.replace('.', "")
}

/// All words, with a rest of zeros and with a random one.
fn words() -> impl Iterator<Item = u32> {
    let cells = (0..1 << 12).flat_map(|high| (0..1 << 8).map(move |low| (high, low)));
    cells.flat_map(|(high, low)| {
        let cell = high << 20 | (low & 7) << 12 | (low >> 3) << 2 | 3;
        [0, fastrand::u32(0..1 << 10)].map(|rest| cell | (rest >> 5) << 15 | (rest & 31) << 7)
    })
}

/// Compares all words; returns the number of equal ones, and that of each reason to differ.
fn compare(
    read: impl Fn(u32) -> Option<String>,
    reason: impl Fn(u32, &Names) -> Option<&'static str>,
) -> (u64, BTreeMap<&'static str, u64>) {
    let (mut equal, mut reasons) = (0, BTreeMap::new());
    for bits in words() {
        let own = Instruction::decode(bits);
        let own = own.as_ref().map_or("", mnemonic);
        let names = (own, without_dots(&read(bits).unwrap_or_default()));
        if without_dots(own) == names.1 {
            equal += 1;
            continue;
        }
        let reason = reason(bits, &names);
        let reason = reason.unwrap_or_else(|| panic!("{bits:#x}: own and other name {names:?}"));
        *reasons.entry(reason).or_default() += 1;
    }
    (equal, reasons)
}

#[test]
fn sail_knows_the_same_words_but_for_named_ones() {
    let core = std::cell::RefCell::new(sail::core());
    let read = |bits| sail::name_of(&core.borrow_mut().decode_instr(bits));
    let lacks = listed(&NOT_IN_SAIL);
    let (equal, reasons) = compare(read, |bits, (own, other)| {
        let is_rounded = (0x43..=0x53).contains(&(bits & 0x7f)) && bits >> 12 & 7 >= 5;
        match (*own, other.as_str()) {
            // The interpreter executes none of them.
            (_, "") if is_rounded => Some("the decoder takes reserved rounding modes"),
            (own, "" | "fence") if lacks.contains(own) => Some("the model lacks the extension"),
            _ => None,
        }
    });
    println!("{equal} words like Sail; {reasons:#?}");
    assert!(equal > 2_000_000, "{equal}");
    assert_eq!(reasons.len(), 2, "a reason has no case: {reasons:?}");
}

#[test]
fn raki_knows_the_same_words_but_for_named_ones() {
    let lacks = listed(&NOT_IN_RAKI);
    let (equal, reasons) = compare(
        |bits| raki::read(bits).map(|read| raki::name_of(&read)),
        |_, (own, other)| match (*own, other.as_str()) {
            (own, "") if lacks.contains(own) => Some("raki lacks the extension"),
            ("fence" | "pause", "fencei") => Some("raki takes each fence for fence.i"),
            ("csrrs", read) if read.starts_with("rd") => Some("raki names reads of counters"),
            (_, read) if read.starts_with("ss") => Some("the decoder lacks Zicfiss"),
            ("", "jalr" | "ecall" | "ebreak" | "lrw" | "lrd" | "sfencevma") => {
                Some("raki takes reserved fields")
            }
            (own, "and" | "or" | "xor" | "sll" | "slt" | "sltu" | "slliw" | "sllw")
                if own.is_empty() || lacks.contains(own) =>
            {
                Some("raki does not look at funct7 of some operations")
            }
            _ => None,
        },
    );
    println!("{equal} words like raki; {reasons:#?}");
    assert!(equal > 1_500_000, "{equal}");
    assert_eq!(reasons.len(), 6, "a reason has no case: {reasons:?}");
}

/// Words alone cannot show that no form is missing: each form has words here.
#[test]
fn the_words_have_each_form() {
    let mut count = vec![0_u32; FORMS.len()];
    for own in words().filter_map(Instruction::decode) {
        count[own.operation as usize] += 1;
    }
    for (form, count) in FORMS.iter().zip(count) {
        assert!(count > 0, "{}", form.mnemonic);
    }
}
