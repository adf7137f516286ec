//! How the machine came up, for the OS: `/chosen/poorwill,boot` of its device
//! tree.
//!
//! An OS that wakes has its tree in memory, as it was at the cold boot. The
//! firmware knows where it put the value then, and writes over it.

use core::fmt::{self, Write};

use poorwill_devicetree::REPORT_BYTES;
use poorwill_sleep::WakeReport;
use poorwill_sleep::retain::Source;
use spin::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::platform::platform;

/// The value: a text, filled up with zeros, of which there is at least one.
pub(crate) type Text = [u8; REPORT_BYTES];

/// Where the value lies, and what it is. An image keeps it as it is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Report {
    /// Its physical address.
    pub(crate) address: u64,
    /// What the firmware wrote there.
    pub(crate) text: Text,
}

/// What the running OS was told.
static CURRENT: Mutex<Option<Report>> = Mutex::new(None);

/// What the running OS was told, and where; for the image of a sleep.
pub(crate) fn current() -> Option<Report> {
    *CURRENT.lock()
}

/// Keeps what the OS is told at a cold boot.
pub(crate) fn remember(report: Report) {
    *CURRENT.lock() = Some(report);
}

/// The text as a value; what does not fit is left out.
pub(crate) fn text(arguments: fmt::Arguments<'_>) -> Text {
    let mut line = Line {
        text: [0; REPORT_BYTES],
        length: 0,
    };
    // A line takes anything.
    let _ = line.write_fmt(arguments);
    line.text
}

/// Tells an OS that wakes from which image it does; `told` is what it was told
/// last, from that image. Says whether it could be: an OS may have moved its
/// tree, and memory that is no longer the report is left alone.
///
/// To be called when the OS's memory is loaded, and before any of it runs.
pub(crate) fn woken(told: Option<Report>, wake: &WakeReport) -> bool {
    let new = told.and_then(|told| tell(&told, format_args!("{wake}")));
    *CURRENT.lock() = new;
    new.is_some()
}

/// Tells an OS that wakes from RAM what woke it, after how many milliseconds.
pub(crate) fn rested(source: Source, slept_ms: u64) {
    let mut current = CURRENT.lock();
    if let Some(told) = *current {
        let text = format_args!("woken: from RAM source={source} slept_ms={slept_ms}");
        // Where the OS has moved its tree, there is nobody to tell.
        *current = tell(&told, text);
    }
}

/// Writes a new text over the report, if it is still there.
fn tell(told: &Report, new: fmt::Arguments<'_>) -> Option<Report> {
    let text = text(new);
    replace(told, &text).then_some(Report { text, ..*told })
}

/// Writes `text` over the report, if it is still there.
fn replace(told: &Report, text: &Text) -> bool {
    if !platform()
        .memory
        .contains(told.address, REPORT_BYTES as u64)
    {
        return false;
    }
    let place = core::ptr::with_exposed_provenance_mut::<Text>(told.address as usize);
    // SAFETY: OS memory, while no OS runs; bytes need no alignment.
    unsafe {
        if place.read() != told.text {
            return false;
        }
        place.write(*text);
    }
    true
}

/// A text on its way into a value.
struct Line {
    text: Text,
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for character in part.chars() {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            let end = self.length + bytes.len();
            if end >= REPORT_BYTES {
                break;
            }
            self.text[self.length..end].copy_from_slice(bytes);
            self.length = end;
        }
        Ok(())
    }
}
