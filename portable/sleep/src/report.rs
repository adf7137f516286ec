//! The report to the OS how the machine started (`/chosen/poorwill,boot`). At a wake the firmware
//! overwrites the report in the OS's own device tree.

use core::fmt::{self, Write};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::ColdBoot;
use crate::event::WakeReport;
use crate::retain::Source;
use crate::text::{Line, REPORT_BYTES, ReportText};

/// The note for an OS that can reach machine mode.
const UNPROTECTED: &str = "; machine mode is not protected";

/// Whether PMP keeps the OS out of machine mode's memory and registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// PMP protects machine mode.
    There,
    /// The harts have no PMP.
    Missing,
}

impl Protection {
    /// From whether there is PMP.
    #[must_use]
    pub fn of(is_there: bool) -> Self {
        match is_there {
            true => Protection::There,
            false => Protection::Missing,
        }
    }
}

/// The kind of start, with its text for the OS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup<'s> {
    /// A cold boot.
    Cold(&'s ColdBoot),
    /// A wake from an image.
    Image(&'s WakeReport),
    /// A wake from persistent RAM, after a cut that the OS had asked for.
    Cut {
        /// Time for which the machine slept, in ms.
        slept_ms: u64,
    },
    /// A wake from powered RAM.
    Ram {
        /// The wake event.
        source: Source,
        /// Time for which it retained, in ms.
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
    /// The text, followed by a note if machine mode is not protected from the OS. If there is not
    /// enough room, the text is shortened.
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

/// The last report to the OS, and its address. An image contains these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Report {
    /// Physical address of the text.
    pub address: u64,
    /// The text that the firmware wrote there.
    pub text: ReportText,
}

impl Report {
    /// The next report for the address, at which `found` lies now. `None` if `found` is not this
    /// report: the OS may have moved its tree and reused the memory.
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
