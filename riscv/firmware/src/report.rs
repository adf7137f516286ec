//! How the machine came up, for the OS: `/chosen/poorwill,boot` of its device
//! tree.
//!
//! An OS that wakes has its tree in memory, as it was at the cold boot. The
//! firmware knows where it put the value then, and writes over it.

use poorwill_sleep::{REPORT_BYTES, Report, ReportText, Startup};
use spin::Mutex;

use crate::platform::{platform, pmp};

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

/// Tells an OS that wakes how it does; `told` is what it was told last. Says whether
/// it could be: an OS may have moved its tree, and memory that is no longer the
/// report is left alone.
///
/// To be called when the OS's memory is as it was, and before any of it runs.
pub(crate) fn tell(told: Option<Report>, startup: &Startup<'_>) -> bool {
    let new = told.and_then(|told| replace(&told, startup));
    *CURRENT.lock() = new;
    new.is_some()
}

/// Writes a new text over the report, if it is still there.
fn replace(told: &Report, startup: &Startup<'_>) -> Option<Report> {
    let memory = &platform().memory;
    if !memory.contains(told.address, REPORT_BYTES as u64) {
        return None;
    }
    let place = core::ptr::with_exposed_provenance_mut::<ReportText>(told.address as usize);
    // SAFETY: OS memory, while no OS runs; bytes need no alignment.
    let found = unsafe { place.read() };
    let new = told.succeed(&found, startup, pmp::protection())?;
    // SAFETY: as above.
    unsafe { place.write(new.text) };
    Some(new)
}
