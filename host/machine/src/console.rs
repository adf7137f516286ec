//! A machine's serial console as lines with their times of arrival.

use std::collections::BTreeMap;
use std::time::Duration;

/// Texts of lines after which no machine can succeed: of Linux, of the firmware, and of the guests.
pub const FAILURES: [&str; 5] = [
    "Kernel panic",
    "poorwill: panic",
    "poorwill: cannot start",
    ": FAIL",
    "FAIL:",
];

/// One line of the console, without its line end and terminal colours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Arrival of its last byte, since power-on.
    pub at: Duration,
    /// The text, with a replacement for bytes that are not UTF-8.
    pub text: String,
}

/// An output of [`Splitter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A complete line.
    Line(Line),
    /// The present state of a line that is overwritten, such as a progress bar.
    Redraw(String),
}

/// Longer lines are cut, so that an endless line takes no memory.
const LONGEST_LINE: usize = 64 * 1024;

/// Splits a stream of bytes into lines.
///
/// A line ends with LF. CR before LF is dropped; another CR restarts the line, as on a terminal.
#[derive(Debug, Default)]
pub struct Splitter {
    pending: Vec<u8>,
    after_return: bool,
    redrawn: bool,
}

impl Splitter {
    /// Takes bytes that arrived at `at`, and emits the lines that they complete.
    pub fn push(&mut self, bytes: &[u8], at: Duration, mut emit: impl FnMut(Event)) {
        for &byte in bytes {
            match byte {
                b'\n' => self.finish(at, &mut emit),
                b'\r' => self.after_return = true,
                _ => {
                    if self.after_return {
                        self.after_return = false;
                        self.redrawn = true;
                        self.pending.clear();
                    }
                    self.pending.push(byte);
                    if self.pending.len() >= LONGEST_LINE {
                        self.finish(at, &mut emit);
                    }
                }
            }
        }
        if self.redrawn && !self.pending.is_empty() {
            emit(Event::Redraw(readable(&self.pending)));
        }
    }

    /// The unfinished line: a prompt, for example.
    #[must_use]
    pub fn pending(&self) -> String {
        readable(&self.pending)
    }

    /// Ends the stream; an unfinished line becomes the last one.
    pub fn close(&mut self, at: Duration, mut emit: impl FnMut(Event)) {
        if !self.pending.is_empty() {
            self.finish(at, &mut emit);
        }
    }

    fn finish(&mut self, at: Duration, emit: &mut impl FnMut(Event)) {
        let text = readable(&self.pending);
        *self = Splitter::default();
        emit(Event::Line(Line { at, text }));
    }
}

/// Bytes of a guest as text that is safe on the user's terminal: without escape sequences and
/// control characters.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = console::strip_ansi_codes(&text);
    plain
        .chars()
        .filter(|c| !c.is_control() || *c == '\t')
        .collect()
}

/// The `key=value` words of a console line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(BTreeMap<String, String>);

impl Fields {
    /// The fields after `prefix`, at any place in `line`; `None`: no prefix. Words without `=` are
    /// skipped, so that later firmware can add words to a line.
    #[must_use]
    pub fn parse(line: &str, prefix: &str) -> Option<Self> {
        let (_, rest) = line.split_once(prefix)?;
        let fields = rest
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Some(Fields(fields))
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of `key` as a whole number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// The value of `key` in seconds, with or without a fraction.
    #[must_use]
    pub fn seconds(&self, key: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.get(key)?.parse().ok()?).ok()
    }

    /// The value of `key` in milliseconds, with or without a fraction.
    #[must_use]
    pub fn milliseconds(&self, key: &str) -> Option<Duration> {
        let count: f64 = self.get(key)?.parse().ok()?;
        Duration::try_from_secs_f64(count / 1000.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Duration = Duration::from_millis(7);

    fn split(chunks: &[&[u8]]) -> (Vec<String>, Vec<String>, String) {
        let (mut lines, mut redraws) = (Vec::new(), Vec::new());
        let mut splitter = Splitter::default();
        for chunk in chunks {
            splitter.push(chunk, NOW, |event| match event {
                Event::Line(line) => lines.push(line.text),
                Event::Redraw(text) => redraws.push(text),
            });
        }
        (lines, redraws, splitter.pending())
    }

    #[test]
    fn lines_end_with_lf_or_crlf_across_chunks() {
        let (lines, redraws, pending) = split(&[b"one\r", b"\ntwo\nlog", b"in: "]);
        assert_eq!(lines, ["one", "two"]);
        assert!(redraws.is_empty());
        assert_eq!(pending, "login: ");
    }

    #[test]
    fn a_progress_bar_is_one_line() {
        let (lines, redraws, _) = split(&[b"\rsave 10%", b"\rsave 50%", b"\rsave 100%\r\nnext\n"]);
        assert_eq!(lines, ["save 100%", "next"]);
        assert_eq!(redraws, ["save 10%", "save 50%"]);
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        let (lines, _, _) = split(&[b"[\x1b[0;32m  OK  \x1b[0m] Started\x07\n\xff\n"]);
        assert_eq!(lines, ["[  OK  ] Started", "\u{fffd}"]);
    }

    #[test]
    fn an_endless_line_is_cut() {
        let (lines, _, pending) = split(&[&[b'x'; LONGEST_LINE + 3]]);
        assert_eq!(
            (lines.len(), lines[0].len(), pending.len()),
            (1, LONGEST_LINE, 3)
        );
    }

    #[test]
    fn fields_are_found_behind_a_kernel_time_stamp() {
        let line = "[   12.5] poorwill: wake loaded_bytes=4096 ms=170.5 new_key=x done";
        let fields = Fields::parse(line, "poorwill: wake").unwrap();
        assert_eq!(fields.number("loaded_bytes"), Some(4096));
        assert_eq!(
            fields.milliseconds("ms"),
            Some(Duration::from_micros(170_500))
        );
        assert_eq!(fields.get("new_key"), Some("x"));
        assert_eq!(fields.get("absent"), None);
        assert_eq!(Fields::parse(line, "poorwill: sleep"), None);
        let odd = Fields::parse("p ms=-1 s=nan", "p").unwrap();
        assert_eq!((odd.milliseconds("ms"), odd.seconds("s")), (None, None));
    }

    proptest! {
        /// How the bytes are cut into chunks makes no difference to the lines.
        #[test]
        fn chunks_do_not_matter(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(0x1b), any::<u8>()], 0..200), at in 0..200usize) {
            let cut = at.min(bytes.len());
            let (whole, _, rest) = split(&[&bytes]);
            let (parts, _, rest_of_parts) = split(&[&bytes[..cut], &bytes[cut..]]);
            prop_assert_eq!(whole, parts);
            prop_assert_eq!(rest, rest_of_parts);
        }
    }
}
