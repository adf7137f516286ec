//! Formatted text in a buffer, as of a kernel's messages: `%d`, `%u`, `%x`, `%s`, `%p`, with `l`, `0`, `-`
//! and widths.

use super::program::Program;
use crate::{arch::kernel_space::KernelSpace, random::Random};

const LINE: usize = 128;
const VALUES: usize = 64;

/// What a message formats.
#[derive(Clone, Copy)]
enum Argument<'a> {
    Number(u64),
    Text(&'a [u8]),
}

/// The text so far. It ends with the buffer.
struct Line<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Line<'_> {
    fn put(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length += 1;
    }

    fn pad(&mut self, with: u8, bytes: usize) {
        for _ in 0..bytes {
            self.put(with);
        }
    }
}

/// How an argument is written.
#[derive(Clone, Copy, Default)]
struct Form {
    width: usize,
    is_left: bool,
    has_zeros: bool,
    is_long: bool,
    is_signed: bool,
    is_hexadecimal: bool,
}

/// Writes a number.
#[inline(never)]
fn put_number(line: &mut Line<'_>, value: u64, form: Form) {
    let value = match (form.is_long, form.is_signed) {
        (true, _) => value,
        (false, true) => i64::from(value as i32).cast_unsigned(),
        (false, false) => u64::from(value as u32),
    };
    let is_negative = form.is_signed && value.cast_signed() < 0;
    let mut rest = if is_negative {
        value.wrapping_neg()
    } else {
        value
    };
    // The last digit comes first.
    let mut digits = [0; 20];
    let mut count = 0;
    loop {
        let (digit, others) = match form.is_hexadecimal {
            true => (rest as u8 & 15, rest >> 4),
            false => ((rest % 10) as u8, rest / 10),
        };
        digits[count] = digit + if digit < 10 { b'0' } else { b'a' - 10 };
        count += 1;
        rest = others;
        if rest == 0 || count == digits.len() {
            break;
        }
    }
    let padding = form.width.saturating_sub(count + usize::from(is_negative));
    if !form.is_left && !form.has_zeros {
        line.pad(b' ', padding);
    }
    if is_negative {
        line.put(b'-');
    }
    if form.has_zeros {
        line.pad(b'0', padding);
    }
    for digit in digits[..count].iter().rev() {
        line.put(*digit);
    }
    if form.is_left {
        line.pad(b' ', padding);
    }
}

/// Writes a text.
#[inline(never)]
fn put_text(line: &mut Line<'_>, text: &[u8], form: Form) {
    let padding = form.width.saturating_sub(text.len());
    if !form.is_left {
        line.pad(b' ', padding);
    }
    for byte in text {
        line.put(*byte);
    }
    if form.is_left {
        line.pad(b' ', padding);
    }
}

/// Reads a form after `%`; returns its conversion, and where it ends.
#[inline(never)]
fn read_form(format: &[u8], mut at: usize) -> (Form, u8, usize) {
    let mut form = Form::default();
    while let Some(byte) = format.get(at).filter(|byte| matches!(byte, b'0' | b'-')) {
        form.is_left |= *byte == b'-';
        form.has_zeros |= *byte == b'0';
        at += 1;
    }
    while let Some(byte) = format.get(at).filter(|byte| byte.is_ascii_digit()) {
        form.width = 10 * form.width + usize::from(byte - b'0');
        at += 1;
    }
    if format.get(at) == Some(&b'l') {
        form.is_long = true;
        at += 1;
    }
    let conversion = format.get(at).copied().unwrap_or_default();
    (form, conversion, at + 1)
}

/// Writes the arguments as a format says, and returns the length of the whole text.
#[inline(never)]
fn write(bytes: &mut [u8], format: &[u8], arguments: &[Argument<'_>]) -> usize {
    let mut line = Line { bytes, length: 0 };
    let mut arguments = arguments.iter();
    let mut at = 0;
    while let Some(byte) = format.get(at) {
        at += 1;
        if *byte != b'%' {
            line.put(*byte);
            continue;
        }
        let (mut form, conversion, after) = read_form(format, at);
        at = after;
        match arguments.next() {
            Some(Argument::Text(text)) => put_text(&mut line, text, form),
            Some(Argument::Number(value)) => {
                let is_pointer = conversion == b'p';
                form.is_signed = conversion == b'd';
                form.is_hexadecimal = conversion == b'x' || is_pointer;
                if is_pointer {
                    form = Form {
                        width: 16,
                        has_zeros: true,
                        is_long: true,
                        ..form
                    };
                }
                put_number(&mut line, *value, form);
            }
            None => line.put(b'?'),
        }
    }
    line.length
}

pub(super) struct Format {
    line: [u8; LINE],
    values: [u64; VALUES],
    names: [[u8; 8]; 8],
}

impl Program for Format {
    const NAME: &str = "format";

    fn begin(random: &mut Random, _: &KernelSpace) -> Self {
        Format {
            line: [0; LINE],
            // Of all lengths, as numbers in messages are.
            values: core::array::from_fn(|_| {
                let bits = random.below(64);
                random.next() as u64 >> bits
            }),
            names: core::array::from_fn(|_| core::array::from_fn(|_| random.of(b"abcdefgh"))),
        }
    }

    fn round(&mut self, round: usize) -> u64 {
        let value = |number: usize| Argument::Number(self.values[(round + number) % VALUES]);
        let name = &self.names[round % self.names.len()][..1 + round % 8];
        let arguments = [
            Argument::Text(name),
            value(0),
            value(1),
            value(2),
            value(3),
            value(4),
            value(5),
        ];
        let format = b"%-8s: %d of %u, flags %08x at %p, %5d ticks (%lu)\n";
        let length = write(&mut self.line, format, &arguments);
        length as u64 ^ u64::from(self.line[round % LINE]) << 8
    }
}
