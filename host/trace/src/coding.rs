//! Records as bytes.

use poorwill_oc_pmem::Kind;

/// A hart's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The hart's number.
    pub hart: u16,
    /// Its kind.
    pub kind: Kind,
    /// The line's number from the start of RAM; zero for a fence.
    pub line: u32,
    /// Instructions of the hart since its last record.
    pub instructions: u64,
}

/// Bits of the first byte: the kind, another hart than before, and a few instructions.
const KIND: u8 = 7;
const OTHER_HART: u8 = 1 << 3;
const INSTRUCTIONS: u32 = 4;
/// Those instructions follow as a number.
const MANY: u64 = 15;

/// The most bytes of a record: the first byte, a hart, instructions, a line.
pub(crate) const MOST_OF_RECORD: usize = 1 + 3 + 10 + 5;

/// What a block's next record is compared with. Each block starts anew.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    hart: u16,
    /// Each hart's last line: of data, code, and write-backs.
    lines: Vec<[u32; 3]>,
}

/// Why bytes are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Context {
    pub(crate) fn new(harts: usize) -> Self {
        Context {
            hart: 0,
            lines: vec![[0; 3]; harts],
        }
    }

    pub(crate) fn reset(&mut self) {
        self.hart = 0;
        self.lines.fill([0; 3]);
    }

    /// The last line of the hart, among those of the kind's class; `None`: the kind has no line.
    fn last(&mut self, hart: u16, kind: Kind) -> Option<&mut u32> {
        let class = match kind {
            Kind::Load | Kind::Store => 0,
            Kind::Fetch => 1,
            Kind::WriteBack | Kind::Flush => 2,
            Kind::Fence => return None,
        };
        self.lines
            .get_mut(usize::from(hart))
            .map(|lines| &mut lines[class])
    }

    /// Appends a record, whose hart exists.
    pub(crate) fn encode(&mut self, record: &Record, bytes: &mut Vec<u8>) {
        let number = Kind::ALL.iter().position(|kind| *kind == record.kind);
        let mut first = u8::try_from(number.unwrap_or_default()).unwrap_or_default();
        let few = record.instructions.min(MANY);
        first |= u8::try_from(few << INSTRUCTIONS).unwrap_or_default();
        let is_other = record.hart != self.hart;
        bytes.push(first | if is_other { OTHER_HART } else { 0 });
        if is_other {
            put(record.hart.into(), bytes);
            self.hart = record.hart;
        }
        if few == MANY {
            put(record.instructions - MANY, bytes);
        }
        if let Some(last) = self.last(record.hart, record.kind) {
            let step = i64::from(record.line) - i64::from(*last);
            put((step << 1 ^ step >> 63).cast_unsigned(), bytes);
            *last = record.line;
        }
    }

    /// Takes the first record off `bytes`.
    pub(crate) fn decode(&mut self, bytes: &mut &[u8]) -> Result<Record, Malformed> {
        let (first, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        let kind = *Kind::ALL.get(usize::from(first & KIND)).ok_or(Malformed)?;
        if first & OTHER_HART != 0 {
            self.hart = u16::try_from(take(bytes)?).map_err(|_| Malformed)?;
        }
        if usize::from(self.hart) >= self.lines.len() {
            return Err(Malformed);
        }
        let mut instructions = u64::from(first >> INSTRUCTIONS);
        if instructions == MANY {
            instructions = take(bytes)?.checked_add(MANY).ok_or(Malformed)?;
        }
        let hart = self.hart;
        let mut line = 0;
        if let Some(last) = self.last(hart, kind) {
            let coded = take(bytes)?;
            let step = (coded >> 1).cast_signed() ^ -(coded & 1).cast_signed();
            let sum = i64::from(*last).checked_add(step).ok_or(Malformed)?;
            line = u32::try_from(sum).map_err(|_| Malformed)?;
            *last = line;
        }
        Ok(Record {
            hart,
            kind,
            line,
            instructions,
        })
    }
}

/// Appends a number, seven bits a byte, the lowest first.
fn put(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

fn take(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(Malformed);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}
