//! Compressed instructions by a table of the specification's encodings
//! (`compressed-encodings.txt`), read independently of the decoder.

use std::sync::LazyLock;

use crate::opcodes::Fields;

/// A line of the table, parsed.
struct Encoding {
    name: &'static str,
    /// Fixed bits, and their values.
    mask: u32,
    value: u32,
    /// Places of the immediate's bits: in the instruction, in the immediate.
    immediate: Vec<(u32, u32)>,
    /// Registers with names, by the name.
    registers: Vec<(&'static str, Register)>,
    mnemonic: &'static str,
    /// Destination, sources and immediate of the instruction that the encoding stands for.
    operands: [&'static str; 4],
    conditions: Vec<&'static str>,
}

/// The field of a register.
#[derive(Clone, Copy)]
struct Register {
    lowest: u32,
    /// Three bits, from x8 on.
    is_short: bool,
}

static ENCODINGS: LazyLock<Vec<Encoding>> = LazyLock::new(|| {
    let lines = include_str!("compressed-encodings.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse).collect()
});

fn parse(line: &'static str) -> Encoding {
    let words: Vec<_> = line.split_whitespace().collect();
    let &[
        name,
        bits,
        immediate,
        mnemonic,
        rd,
        rs1,
        rs2,
        value,
        conditions,
    ] = words.as_slice()
    else {
        panic!("{line}: nine columns");
    };
    let mut encoding = Encoding {
        name,
        mask: 0,
        value: 0,
        immediate: Vec::new(),
        registers: Vec::new(),
        mnemonic,
        operands: [rd, rs1, rs2, value],
        conditions: list(conditions).collect(),
    };
    encoding.take(bits, list(immediate));
    encoding
}

/// The entries of a list, which `-` leaves empty.
fn list(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split(',').filter(|entry| *entry != "-")
}

impl Encoding {
    /// Takes the 16 bits, from the highest to the lowest. `numbers` are those of the immediate's bits.
    fn take(&mut self, bits: &str, mut numbers: impl Iterator<Item = &'static str>) {
        assert_eq!(bits.len(), 16, "{} has 16 bits", self.name);
        for (at, kind) in (0..16).rev().zip(bits.chars()) {
            let name = match kind {
                '0' | '1' => {
                    self.mask |= 1 << at;
                    self.value |= kind.to_digit(2).expect("a bit") << at;
                    continue;
                }
                'i' => {
                    let number = numbers.next().expect("a number for each bit");
                    let number = number.parse().expect("a number");
                    self.immediate.push((at, number));
                    continue;
                }
                'd' | 'D' => "rd",
                's' | 'S' => "rs1",
                't' | 'T' => "rs2",
                other => panic!("{}: {other} is no kind of bit", self.name),
            };
            // The last bit of a field is its lowest.
            self.registers.retain(|(known, _)| *known != name);
            let register = Register {
                lowest: at,
                is_short: kind.is_uppercase(),
            };
            self.registers.push((name, register));
        }
        assert_eq!(numbers.next(), None, "{}: a bit too many", self.name);
    }

    /// The number of a register, by its name.
    fn register(&self, name: &str, bits: u32) -> Option<u32> {
        if let Some(number) = name.strip_prefix('x') {
            return Some(number.parse().expect("a register's number"));
        }
        let (_, field) = self.registers.iter().find(|(own, _)| *own == name)?;
        let number = bits >> field.lowest;
        Some(match field.is_short {
            true => 8 + (number & 7),
            false => number & 31,
        })
    }

    /// The immediate's bits without their sign.
    fn immediate(&self, bits: u32) -> u32 {
        self.immediate
            .iter()
            .map(|(of, to)| (bits >> of & 1) << to)
            .sum()
    }

    fn is_met(&self, condition: &str, bits: u32) -> bool {
        match condition {
            "imm" => self.immediate(bits) != 0,
            "not-x2" => self.register("rd", bits) != Some(2),
            name => self.register(name, bits).expect("a register") != 0,
        }
    }

    fn matches(&self, bits: u32) -> bool {
        let is_met = |condition: &&str| self.is_met(condition, bits);
        bits & self.mask == self.value && self.conditions.iter().all(is_met)
    }

    fn number(&self, name: &str, bits: u32) -> Option<i32> {
        let Some((kind, zeros)) = name.split_once('.') else {
            return name.parse().ok();
        };
        let zeros: u32 = zeros.parse().expect("a number of zeros");
        let number = self.immediate(bits);
        let unused = match kind {
            "s" => 32 - self.immediate.iter().map(|_| 1).sum::<u32>(),
            _ => 0,
        };
        Some((number << unused).cast_signed() >> unused << zeros)
    }
}

/// A compressed instruction: its name in the table, and what it stands for.
pub(crate) struct Short {
    pub(crate) name: &'static str,
    pub(crate) mnemonic: &'static str,
    pub(crate) fields: Fields,
}

/// Decodes a compressed instruction; `None` for a reserved one.
pub(crate) fn decode(bits: u16) -> Option<Short> {
    let bits = bits.into();
    let mut encodings = ENCODINGS.iter().filter(|encoding| encoding.matches(bits));
    let encoding = encodings.next()?;
    if let Some(other) = encodings.next() {
        panic!("{bits:#x} is {} and {}", encoding.name, other.name);
    }
    let [rd, rs1, rs2, immediate] = encoding.operands;
    Some(Short {
        name: encoding.name,
        mnemonic: encoding.mnemonic,
        fields: Fields {
            rd: encoding.register(rd, bits),
            rs1: encoding.register(rs1, bits),
            rs2: encoding.register(rs2, bits),
            rs3: None,
            immediate: encoding.number(immediate, bits),
        },
    })
}

/// Names of all lines.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ENCODINGS.iter().map(|encoding| encoding.name)
}
