//! How the machine came up, as its OS is told: a text in a property of its device
//! tree (`/chosen/poorwill,boot`), written over where the tree lies when it wakes.

use core::fmt::{self, Write};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::ColdBoot;
use crate::event::WakeReport;
use crate::retain::Source;
use crate::text::{Line, REPORT_BYTES, ReportText};

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
    /// Its words, and after them a note if machine mode is not protected from the OS. Words
    /// that do not fit before the note are left out.
    #[must_use]
    pub fn text(&self, protection: Protection) -> ReportText {
        let note = match protection {
            Protection::There => "",
            Protection::Missing => UNPROTECTED,
        };
        let mut line = Line::of(self, REPORT_BYTES - 1 - note.len());
        line.lengthen(note.len());
        line.write_str(note).unwrap_or_default();
        line.text()
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

    /// Owner and version of its section of a machine's state.
    pub const SECTION: (u32, u16) = (u32::from_le_bytes(*b"REPT"), 1);
}
