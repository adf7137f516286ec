//! Texts for an OS, in properties of its device tree.

use core::fmt::{self, Write};

/// Bytes of a text.
pub const REPORT_BYTES: usize = 128;

/// A text, padded with at least one zero.
pub type ReportText = [u8; REPORT_BYTES];

/// A text under construction.
pub(crate) struct Line {
    text: ReportText,
    length: usize,
    /// Its maximum length in bytes.
    most: usize,
}

impl Line {
    /// The first `most` bytes of the words.
    pub(crate) fn of(words: &impl fmt::Display, most: usize) -> Self {
        let mut line = Line {
            text: [0; REPORT_BYTES],
            length: 0,
            most,
        };
        // An error only says that the text is full. The rest of the words is dropped.
        write!(line, "{words}").unwrap_or_default();
        line
    }

    /// Increases the maximum length by `more` bytes.
    pub(crate) fn lengthen(&mut self, more: usize) {
        self.most += more;
    }

    /// The text.
    pub(crate) fn text(self) -> ReportText {
        self.text
    }
}

/// A text for an OS. Words that do not fit are dropped.
pub(crate) fn text_of(words: &impl fmt::Display) -> ReportText {
    Line::of(words, REPORT_BYTES - 1).text
}

impl Write for Line {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        part.chars().try_for_each(|character| {
            let end = self.length + character.len_utf8();
            if end > self.most {
                return Err(fmt::Error);
            }
            character.encode_utf8(&mut self.text[self.length..end]);
            self.length = end;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;

    /// The text of `letters` letters and an umlaut, as far as it fits.
    fn text(letters: usize) -> (String, usize, bool) {
        let mut line = Line {
            text: [0; REPORT_BYTES],
            length: 0,
            most: REPORT_BYTES - 1,
        };
        let words = std::format!("{}\u{e4}z", "a".repeat(letters));
        let fits = line.write_str(&words).is_ok();
        let text = core::str::from_utf8(&line.text[..line.length]).unwrap();
        assert!(words.starts_with(text));
        assert!(line.text[line.length..].iter().all(|byte| *byte == 0));
        (text.into(), line.length, fits)
    }

    #[test]
    fn a_character_is_not_torn_and_nothing_follows_a_cut() {
        assert_eq!(text(REPORT_BYTES - 4).1, REPORT_BYTES - 1);
        assert!(text(REPORT_BYTES - 4).2);
        assert_eq!(text(REPORT_BYTES - 3).1, REPORT_BYTES - 1);
        assert!(!text(REPORT_BYTES - 3).2);
        assert_eq!(text(REPORT_BYTES - 2).1, REPORT_BYTES - 2);
        assert!(!text(REPORT_BYTES - 2).2);
    }
}
