//! Matches of names with patterns, as of a driver's table: `*`, `?`, and `[classes]`.

use super::program::Program;
use crate::{arch::kernel_space::KernelSpace, random::Random};
use arrayvec::ArrayVec;

const LENGTH: usize = 32;
const PAIRS: usize = 32;

type Text = ArrayVec<u8, LENGTH>;

/// Returns whether a name has a pattern's form.
#[inline(never)]
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // After the last star: places in the pattern, and in the name for the next trial.
    let mut star = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, in_name));
            continue;
        }
        let next = match name.get(in_name) {
            None if at == pattern.len() => return true,
            None => return false,
            Some(byte) => after_match(pattern, at, *byte),
        };
        (at, in_name) = match (next, star) {
            (Some(next), _) => (next, in_name + 1),
            (None, None) => return false,
            (None, Some((after, from))) => {
                star = Some((after, from + 1));
                (after, from + 1)
            }
        };
    }
}

/// The place after the element of a pattern that a byte matches.
fn after_match(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    let element = *pattern.get(at)?;
    match element {
        b'?' => Some(at + 1),
        b'[' => after_class(pattern, at + 1, byte),
        _ => (element == byte).then_some(at + 1),
    }
}

/// The place after the class that begins at a place, if it has the byte.
fn after_class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let is_inverted = *pattern.get(at)? == b'!';
    at += usize::from(is_inverted);
    let mut has = false;
    while *pattern.get(at)? != b']' {
        let first = pattern[at];
        let mut last = first;
        if *pattern.get(at + 1)? == b'-' {
            last = *pattern.get(at + 2)?;
            at += 2;
        }
        has |= (first..=last).contains(&byte);
        at += 1;
    }
    (has != is_inverted).then_some(at + 1)
}

pub(super) struct Glob {
    patterns: [Text; PAIRS],
    names: [Text; PAIRS],
}

/// A name of few letters, so that stars have several trials.
fn name(random: &mut Random) -> Text {
    let length = 8 + random.below(LENGTH - 8);
    (0..length).map(|_| random.of(b"ab-c0123")).collect()
}

/// A pattern of a name. Some have another last letter.
fn pattern(name: &[u8], random: &mut Random) -> Text {
    let mut pattern = Text::new();
    let mut rest = name;
    while let Some((byte, others)) = rest.split_first() {
        let room = pattern.remaining_capacity();
        rest = others;
        match random.below(8) {
            0 if room > 1 => {
                pattern.push(b'*');
                rest = &others[random.below(others.len() + 1)..];
            }
            1 if room > 1 => pattern.push(b'?'),
            2 if room > 7 => pattern.extend([b'[', b'0', b'-', b'9', *byte, b']']),
            3 if room > 6 => pattern.extend([b'[', b'!', b'z', b'y', b']']),
            _ if room > 1 => pattern.push(*byte),
            _ => {}
        }
    }
    pattern.push(random.of(b"***z"));
    pattern
}

impl Program for Glob {
    const NAME: &str = "glob";

    fn begin(random: &mut Random, _: &KernelSpace) -> Self {
        let names: [Text; PAIRS] = core::array::from_fn(|_| name(random));
        let patterns = core::array::from_fn(|number| pattern(&names[number], random));
        Glob { patterns, names }
    }

    fn round(&mut self, round: usize) -> u64 {
        let pair = round % PAIRS;
        u64::from(matches(&self.patterns[pair], &self.names[pair]))
    }
}
