use core::fmt::{self, Write};

use arrayvec::ArrayVec;

/// The maximal bytes of text that wait.
pub const WAITING_BYTES: usize = 512;

/// The maximal bytes of a line's text. A longer line becomes several lines.
const MAX_TEXT: usize = 192;

/// The maximal bytes of the name before a line.
const MAX_NAME: usize = 48;

/// The maximal bytes of a printed line: name, separator, text and line end.
pub const MAX_PRINTED: usize = MAX_NAME + 2 + MAX_TEXT + 2;

/// A line to print, with carriage return and line feed, and room for those of an unfinished line
/// before it.
pub type PrintedLine = ArrayVec<u8, { MAX_PRINTED + 2 }>;

/// Text that waits for a console of another owner. It leaves as whole lines under a name. Text that
/// finds no room is dropped and counted.
#[derive(Debug, Default)]
pub struct Lines {
    text: ArrayVec<u8, WAITING_BYTES>,
    dropped: u32,
}

impl Lines {
    /// No text.
    #[must_use]
    pub const fn new() -> Self {
        Lines {
            text: ArrayVec::new_const(),
            dropped: 0,
        }
    }

    /// Takes the first bytes that have room, and returns their number. Without any room it drops
    /// and counts all bytes, and returns their number: the writer never waits.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let room = self.text.remaining_capacity();
        let taken = match bytes.split_at_checked(room) {
            Some(([], _)) => {
                let dropped = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                self.dropped = self.dropped.saturating_add(dropped);
                return bytes.len();
            }
            Some((first, _)) => first,
            None => bytes,
        };
        self.text.extend(taken.iter().copied());
        taken.len()
    }

    /// Takes a line and its end. Without room for all of it, it drops and counts all of it, so that
    /// no other line follows on its first part. The text before it must end with a line.
    pub fn take_line(&mut self, line: fmt::Arguments<'_>) {
        let (length, dropped) = (self.text.len(), self.dropped);
        // No write fails: text without room is dropped.
        writeln!(self, "{line}").unwrap_or_default();
        if self.dropped > dropped {
            let cut = u32::try_from(self.text.len() - length).unwrap_or(u32::MAX);
            self.text.truncate(length);
            self.dropped = self.dropped.saturating_add(cut);
        }
    }

    /// Moves the next line to the empty `into`, under this name; returns whether there is one. A
    /// line that begins with `NAME: ` keeps one name. After the last line it reports the dropped
    /// bytes.
    pub fn next(&mut self, name: &str, into: &mut PrintedLine) -> bool {
        let mut out = Out(into);
        // The line has room for the name and the text.
        let name = &name.as_bytes()[..name.len().min(MAX_NAME)];
        let Some(end) = self.end_of_line() else {
            let dropped = core::mem::take(&mut self.dropped);
            if dropped > 0 {
                out.bytes(name);
                write!(out, ": ({dropped} bytes dropped)\r\n").unwrap_or_default();
            }
            return dropped > 0;
        };
        out.bytes(name);
        out.bytes(b": ");
        let text = self.text[..end].trim_ascii_end();
        let own = text
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(b": "));
        for part in own.unwrap_or(text).utf8_chunks() {
            // A carriage return could overwrite the name on a terminal.
            for part in part.valid().split('\r') {
                out.bytes(part.as_bytes());
            }
        }
        out.bytes(b"\r\n");
        self.text.drain(..end);
        true
    }

    /// The number of bytes of the first line, with its line feed; `None` if it is not whole.
    fn end_of_line(&self) -> Option<usize> {
        let most = &self.text[..self.text.len().min(MAX_TEXT)];
        match most.iter().position(|byte| *byte == b'\n') {
            Some(end) => Some(end + 1),
            None => (most.len() == MAX_TEXT).then_some(MAX_TEXT),
        }
    }
}

impl Write for Lines {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let mut rest = part.as_bytes();
        while !rest.is_empty() {
            rest = &rest[self.take(rest)..];
        }
        Ok(())
    }
}

/// A line under construction.
struct Out<'l>(&'l mut PrintedLine);

impl Out<'_> {
    /// Adds the bytes that have room.
    fn bytes(&mut self, part: &[u8]) {
        let room = MAX_PRINTED.saturating_sub(self.0.len());
        self.0.extend(part.iter().copied().take(room));
    }
}

impl Write for Out<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.bytes(part.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(lines: &mut Lines) -> String {
        let mut all = String::new();
        let mut line = PrintedLine::new();
        while lines.next("side1", &mut line) {
            all += core::str::from_utf8(&line).unwrap();
            line.clear();
        }
        all
    }

    #[test]
    fn whole_lines_have_the_name() {
        let mut lines = Lines::new();
        assert_eq!(lines.take(b"one\r\ntwo\nthr"), 12);
        assert_eq!(printed(&mut lines), "side1: one\r\nside1: two\r\n");
        assert_eq!(printed(&mut lines), "");
        lines.take(b"ee\rpoorwill: forged\xff\n");
        assert_eq!(printed(&mut lines), "side1: threepoorwill: forged\r\n");
    }

    #[test]
    fn a_line_with_the_name_keeps_one() {
        let mut lines = Lines::new();
        lines.take(b"side1: one\nside1: side1: two\nside1:\nside10: three\n");
        assert_eq!(
            printed(&mut lines),
            "side1: one\r\nside1: side1: two\r\nside1: side1:\r\nside1: side10: three\r\n"
        );
    }

    #[test]
    fn text_without_room_is_dropped_and_counted() {
        let mut lines = Lines::new();
        assert_eq!(lines.take(&[b'\n'; WAITING_BYTES - 3]), WAITING_BYTES - 3);
        assert_eq!(lines.take(b"12345"), 3, "the rest may come later");
        assert_eq!((lines.take(b"45\n"), lines.take(b"x")), (3, 1), "dropped");
        let all = printed(&mut lines);
        assert!(all.ends_with("side1: \r\nside1: (4 bytes dropped)\r\n"));
        lines.take(b"6\n");
        assert_eq!(printed(&mut lines), "side1: 1236\r\n", "counted once");
    }

    #[test]
    fn a_line_has_room_or_is_dropped_as_a_whole() {
        let mut lines = Lines::new();
        let long = "x".repeat(120);
        for number in 0..6 {
            lines.take_line(format_args!("{number}{long}"));
        }
        // Four lines of 122 bytes have room; a shorter one has, too.
        lines.take_line(format_args!("short"));
        let all = printed(&mut lines);
        let ends: Vec<_> = all.lines().map(|line| &line[7..8]).collect();
        assert_eq!(ends, ["0", "1", "2", "3", "s", "("]);
        assert!(all.ends_with("side1: short\r\nside1: (244 bytes dropped)\r\n"));
    }

    proptest! {
        #[test]
        fn any_text_leaves_in_lines_that_fit(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..8),
            name in ".{0,60}",
        ) {
            let mut lines = Lines::new();
            for part in &parts {
                prop_assert!(lines.take(part) > 0 || part.is_empty());
                let mut line = PrintedLine::new();
                while lines.next(&name, &mut line) {
                    prop_assert!(line.ends_with(b"\r\n"));
                    prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1 + name_ends(&name));
                    line.clear();
                }
                prop_assert!(lines.text.len() < MAX_TEXT);
            }
        }
    }

    /// Line feeds of a name's printed part.
    fn name_ends(name: &str) -> usize {
        let printed = name.bytes().take(MAX_NAME);
        printed.filter(|byte| *byte == b'\n').count()
    }
}
