//! How the machine came up, as its OS is told: a text in a property of its device
//! tree (`/chosen/poorwill,boot`), written over where the tree lies when it wakes.

use core::fmt::{self, Write};

use poorwill_image::{StateError, StateSections, StateWriter};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::ColdBoot;
use crate::event::WakeReport;
use crate::retain::Source;

/// Bytes of the text.
pub const REPORT_BYTES: usize = 128;

/// The text, filled up with zeros, of which there is at least one.
pub type ReportText = [u8; REPORT_BYTES];

/// Owner of the section of an image's state that holds a [`Report`].
const OWNER: u32 = u32::from_le_bytes(*b"REPT");

/// Version of that section.
const VERSION: u16 = 1;

/// What is said of machine mode that the OS can reach.
const UNPROTECTED: &str = "; machine mode is not protected";

/// Whether the OS is kept out of machine mode's memory and registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It is.
    There,
    /// The harts have nothing to do it with.
    Missing,
}

impl Protection {
    /// Whether there is one.
    #[must_use]
    pub fn of(is_there: bool) -> Self {
        match is_there {
            true => Protection::There,
            false => Protection::Missing,
        }
    }
}

/// How the machine came up, with its words for the OS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup<'s> {
    /// Cold.
    Cold(&'s ColdBoot),
    /// From an image.
    Image(&'s WakeReport),
    /// From its RAM, which is persistent: it had asked for a cut.
    Cut {
        /// How long it had slept.
        slept_ms: u64,
    },
    /// From its RAM, which was powered.
    Ram {
        /// What woke it.
        source: Source,
        /// How long it had rested.
        slept_ms: u64,
    },
}

impl fmt::Display for Startup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Startup::Cold(reason) => write!(f, "cold boot: {reason}"),
            Startup::Image(wake) => wake.fmt(f),
            Startup::Cut { slept_ms } => write!(f, "woken: from a cut slept_ms={slept_ms}"),
            Startup::Ram { source, slept_ms } => {
                write!(f, "woken: from RAM source={source} slept_ms={slept_ms}")
            }
        }
    }
}

impl Startup<'_> {
    /// Its words, and behind them whether machine mode is not protected from the OS; what
    /// does not fit of the former is left out.
    #[must_use]
    pub fn text(&self, protection: Protection) -> ReportText {
        let note = match protection {
            Protection::There => "",
            Protection::Missing => UNPROTECTED,
        };
        let mut line = Line::of(self, REPORT_BYTES - 1 - note.len());
        line.most += note.len();
        line.write_str(note).unwrap_or_default();
        line.text
    }
}

/// What an OS was told, and where. An image keeps it as it is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Report {
    /// Physical address of the text.
    pub address: u64,
    /// What the firmware wrote there.
    pub text: ReportText,
}

impl Report {
    /// The report that is to stand in its place, where `found` lies now. `None` where
    /// that is no longer the report: the OS may have moved its tree, and the memory is
    /// something else.
    #[must_use]
    pub fn succeed(
        &self,
        found: &ReportText,
        startup: &Startup<'_>,
        protection: Protection,
    ) -> Option<Report> {
        (*found == self.text).then(|| Report {
            text: startup.text(protection),
            ..*self
        })
    }

    /// Owner of its section of an image's state, and the version of that.
    pub const SECTION: (u32, u16) = (OWNER, VERSION);

    /// Writes it into an image's state.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`].
    pub fn write(&self, into: &mut StateWriter<'_>) -> Result<(), StateError> {
        into.section(OWNER, 0, VERSION, self)
    }

    /// Takes it out of an image's state; `None` where the OS was told nothing.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`].
    pub fn read(sections: &mut StateSections<'_>) -> Result<Option<Report>, StateError> {
        let section = sections.take(OWNER, 0);
        section
            .map(|section| section.read::<Report>(VERSION).copied())
            .transpose()
    }
}

/// A text on its way into a value.
struct Line {
    text: ReportText,
    length: usize,
    /// How long it may get.
    most: usize,
}

impl Line {
    /// As much of its words as fits.
    fn of(words: &impl fmt::Display, most: usize) -> Self {
        let mut line = Line {
            text: [0; REPORT_BYTES],
            length: 0,
            most,
        };
        // An error says that the text is full: it ends there.
        write!(line, "{words}").unwrap_or_default();
        line
    }
}

/// A text for an OS; what does not fit is left out.
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

    /// The text of so many letters and an umlaut, as far as it fits.
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
