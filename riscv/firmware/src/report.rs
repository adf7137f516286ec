//! How the machine came up, the log, and what a power failure would come to, for the OS:
//! `/chosen/poorwill,boot`, `/chosen/poorwill,log` and `/chosen/poorwill,cut` of its device
//! tree.
//!
//! An OS that wakes has its tree in memory, as it was at the cold boot. The firmware
//! knows where it put the values then, and writes over them.

use core::fmt::Display;

use poorwill_log::{LogText, ToldLog};
use poorwill_sleep::cut::ToldStatus;
use poorwill_sleep::{Report, ReportText, Startup};
use spin::Mutex;

use crate::platform::{console, platform, pmp};

/// What the running OS was told.
static CURRENT: Mutex<Option<Report>> = Mutex::new(None);

/// Which log it was given.
static LOG: Mutex<Option<ToldLog>> = Mutex::new(None);

/// What it was told of cuts.
static CUT: Mutex<Option<ToldStatus>> = Mutex::new(None);

/// What the running OS was told of cuts, and where; for the image of a sleep, and for a cut.
pub(crate) fn cut_status() -> Option<ToldStatus> {
    *CUT.lock()
}

/// Keeps what the OS was told of cuts, and where.
pub(crate) fn remember_cut_status(told: Option<ToldStatus>) {
    *CUT.lock() = told;
}

/// Tells the OS what a power failure would come to, where it was told before and has not
/// moved its tree. To be called while none of it runs.
pub(crate) fn tell_cut_status(status: &impl Display) {
    let told = cut_status();
    remember_cut_status(told.and_then(|told| {
        let place = os_memory::<ReportText>(told.address())?;
        // SAFETY: OS memory, while no OS runs; bytes need no alignment.
        let found = unsafe { place.read() };
        let (next, text) = told.succeed(&found, status)?;
        // SAFETY: as above.
        unsafe { place.write(text) };
        Some(next)
    }));
}

/// Which log the running OS was given, and where; for the image of a sleep.
pub(crate) fn log() -> Option<ToldLog> {
    *LOG.lock()
}

/// Keeps where the OS finds the log.
pub(crate) fn remember_log(told: Option<ToldLog>) {
    *LOG.lock() = told;
}

/// Gives the OS the log as it is now, where it was given one before and has not moved it.
/// To be called while none of it runs.
pub(crate) fn tell_log() {
    let told = log();
    remember_log(told.and_then(|told| {
        let place = os_memory::<LogText>(told.address)?;
        // SAFETY: OS memory, while no OS runs; bytes need no alignment.
        let text = unsafe { &mut *place };
        console::with_log(|log| told.succeed(log, text)).flatten()
    }));
}

/// A place in the OS's memory.
fn os_memory<T>(address: u64) -> Option<*mut T> {
    let memory = &platform().memory;
    let is_there = memory.contains(address, size_of::<T>() as u64);
    is_there.then(|| core::ptr::with_exposed_provenance_mut(address as usize))
}

/// What the running OS was told, and where; for the image of a sleep.
pub(crate) fn current() -> Option<Report> {
    *CURRENT.lock()
}

/// Keeps what the OS was told before a cut.
pub(crate) fn restore(report: Option<Report>) {
    *CURRENT.lock() = report;
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
    let place = os_memory::<ReportText>(told.address)?;
    // SAFETY: OS memory, while no OS runs; bytes need no alignment.
    let found = unsafe { place.read() };
    let new = told.succeed(&found, startup, pmp::protection())?;
    // SAFETY: as above.
    unsafe { place.write(new.text) };
    Some(new)
}
