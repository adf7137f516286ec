//! A table of the specification's 32-bit encodings (`encodings.txt`), read independently of the
//! decoder.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// An encoding of the table.
pub(crate) struct Opcode {
    pub(crate) mask: u32,
    pub(crate) value: u32,
    /// Names of the variable fields.
    pub(crate) operands: Vec<&'static str>,
}

/// The table, by mnemonic.
pub(crate) static OPCODES: LazyLock<BTreeMap<&'static str, Opcode>> = LazyLock::new(|| {
    let lines = include_str!("encodings.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse).collect()
});

fn parse(line: &'static str) -> (&'static str, Opcode) {
    let mut words = line.split_whitespace();
    let mut word = || words.next().expect("a mnemonic, a mask and a value");
    let (mnemonic, mask, value) = (word(), word(), word());
    let [mask, value] =
        [mask, value].map(|digits| u32::from_str_radix(digits, 16).expect("8 digits"));
    assert_eq!(value & !mask, 0, "{mnemonic}: a value for a variable bit");
    let opcode = Opcode {
        mask,
        value,
        operands: words.collect(),
    };
    (mnemonic, opcode)
}

/// Bits `high` to `low`.
fn cut(bits: u32, high: u32, low: u32) -> u32 {
    bits >> low & (u32::MAX >> (31 - (high - low)))
}

/// The places of a number's bits: the bits of the instruction from `high` to `low` are those of the
/// number from `to` up.
type Parts = &'static [(u32, u32, u32)];

/// The number of these parts, extended by the sign in its bit `sign`.
fn signed(bits: u32, parts: Parts, sign: u32) -> i32 {
    let number: u32 = parts
        .iter()
        .map(|&(high, low, to)| cut(bits, high, low) << to)
        .sum();
    (number << (31 - sign)).cast_signed() >> (31 - sign)
}

/// Fields of an instruction, as the figures of the unprivileged specification place them (2.2 and
/// 2.3). An absent one is `None`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) rd: Option<u32>,
    pub(crate) rs1: Option<u32>,
    pub(crate) rs2: Option<u32>,
    pub(crate) rs3: Option<u32>,
    pub(crate) immediate: Option<i32>,
}

/// Reads the fields that the operation has.
pub(crate) fn fields(operands: &[&str], bits: u32) -> Fields {
    let mut fields = Fields::default();
    for &operand in operands {
        let immediate = match operand {
            "rd" => {
                fields.rd = Some(cut(bits, 11, 7));
                continue;
            }
            "rs1" => {
                fields.rs1 = Some(cut(bits, 19, 15));
                continue;
            }
            "rs2" => {
                fields.rs2 = Some(cut(bits, 24, 20));
                continue;
            }
            "rs3" => {
                fields.rs3 = Some(cut(bits, 31, 27));
                continue;
            }
            "i" | "fence" => signed(bits, &[(31, 20, 0)], 11),
            "s" => signed(bits, &[(31, 25, 5), (11, 7, 0)], 11),
            "b" => signed(
                bits,
                &[(31, 31, 12), (30, 25, 5), (11, 8, 1), (7, 7, 11)],
                12,
            ),
            "u" => signed(bits, &[(31, 12, 12)], 31),
            "j" => signed(
                bits,
                &[(31, 31, 20), (30, 21, 1), (20, 20, 11), (19, 12, 12)],
                20,
            ),
            "shamt6" => signed(bits, &[(25, 20, 0)], 31),
            "shamt5" => signed(bits, &[(24, 20, 0)], 31),
            "csr" => signed(bits, &[(31, 20, 0)], 31),
            other => panic!("the field {other} is unknown"),
        };
        fields.immediate = Some(immediate);
    }
    fields
}
