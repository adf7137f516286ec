//! Reports to the OS: the start, the log and the cut status, in `/chosen/poorwill,boot`,
//! `/chosen/poorwill,log` and `/chosen/poorwill,cut` of its device tree.
//!
//! An OS that wakes does not get a new device tree: it has the one from its cold boot in memory. So
//! the firmware remembers the addresses of the values, and overwrites them.

use core::borrow::Borrow;
use core::fmt::Display;

use poorwill_devicetree::MAX_DOMAINS;
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_log::{Log, LogText, ToldLog};
use poorwill_sleep::cut::ToldStatus;
use poorwill_sleep::{NotKept, Report, ReportText, Startup};
use spin::Mutex;

use crate::domain::{LiveDomain, pmp};
use crate::platform::console::{self, say};
use poorwill_state::{Keep, KeepValue, Saving, Section, Store, kept};

kept! {
    /// The values in the device tree of a domain's OS.
    struct Os of domain, OsState;
    Image | Record => log: &'static Told<ToldLog> = &TOLD[domain as usize].log;
    Image | Record => boot: &'static Told<Report> = &TOLD[domain as usize].boot;
    Image | Record => cut: &'static Told<ToldStatus> = &TOLD[domain as usize].cut;
}

/// The values in the device tree of an OS.
struct ToldValues {
    log: Told<ToldLog>,
    boot: Told<Report>,
    cut: Told<ToldStatus>,
}

/// The values of each domain's OS.
static TOLD: [ToldValues; MAX_DOMAINS] = [const {
    ToldValues {
        log: Told::nothing(),
        boot: Told::nothing(),
        cut: Told::nothing(),
    }
}; MAX_DOMAINS];

/// A value in the OS's device tree: its address, and the last text that the firmware wrote there.
pub(crate) struct Told<T>(Mutex<Option<T>>);

impl<T: Copy> Told<T> {
    const fn nothing() -> Self {
        Told(Mutex::new(None))
    }

    fn get(&self) -> Option<T> {
        *self.0.lock()
    }

    fn set(&self, told: Option<T>) {
        *self.0.lock() = told;
    }
}

/// Implements [`KeepValue`] for a [`Told`] value.
macro_rules! keep_told {
    ($($Value:ty),*) => {
        $(impl KeepValue for &'static Told<$Value> {
            type Value = $Value;
            const SECTION: Section = <$Value>::SECTION;

            fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<$Value>>, NotKept> {
                Ok(self.get())
            }

            fn put_back(&self, told: Option<&$Value>) {
                self.set(told.copied());
            }
        })*
    };
}

keep_told!(ToldLog, Report, ToldStatus);

/// The log's text, for an image. The record of a cut needs none, since memory keeps it.
pub(crate) struct LogOfImage;

impl Keep for LogOfImage {
    const SECTIONS: &'static [Section] = &[Log::SECTION];

    type State<'a> = Option<&'a Log>;

    /// Writes the log. Without room for it the image has no log, and the sleep continues.
    fn save(&self, _: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        if TOLD.iter().all(|told| told.log.get().is_none()) {
            return Ok(());
        }
        let (text, version) = Log::SECTION;
        let written = console::with_log(|log| into.section(text, 0, version, log));
        if let Some(Err(error)) = written {
            say!("the log is not kept: {error}");
        }
        Ok(())
    }

    fn check<'a>(
        &self,
        _: Store,
        sections: &mut StateSections<'a>,
    ) -> Result<Self::State<'a>, StateError> {
        sections.take_payload(Log::SECTION, 0)
    }

    fn put_back(&self, _: Store, state: &Self::State<'_>) {
        if let Some(log) = state {
            console::with_log(|own| own.prepend(log.text()));
        }
    }
}

/// Sets the addresses of the values in the device tree that the domain's OS gets at a cold boot.
pub(crate) fn remember(
    domain: &LiveDomain,
    boot: Report,
    log: Option<ToldLog>,
    cut: Option<ToldStatus>,
) {
    let told = &TOLD[domain.index];
    told.boot.set(Some(boot));
    told.log.set(log);
    told.cut.set(cut);
}

/// Writes the cut status into the OS's device tree, if it has that value and has not moved. Call
/// this while no hart runs the OS.
pub(crate) fn tell_cut_status(domain: &LiveDomain, status: &impl Display) {
    let cut = &TOLD[domain.index].cut;
    cut.set(cut.get().and_then(|told| {
        let place = os_memory::<ReportText>(domain, told.address())?;
        // SAFETY: OS memory, while no OS runs; bytes need no alignment.
        let found = unsafe { place.read() };
        let (next, text) = told.succeed(&found, status)?;
        // SAFETY: as above.
        unsafe { place.write(text) };
        Some(next)
    }));
}

/// Writes the current log into the OS's device tree, if it has that value and has not moved. Call
/// this while no hart runs the OS.
pub(crate) fn tell_log(domain: &LiveDomain) {
    let log = &TOLD[domain.index].log;
    log.set(log.get().and_then(|told| {
        let place = os_memory::<LogText>(domain, told.address)?;
        // SAFETY: OS memory, while no OS runs; bytes need no alignment.
        let text = unsafe { &mut *place };
        if !told.is_there(text) {
            return None;
        }
        // The lines are read from a copy: other domains may wait for the log.
        let mut copy = domain.log_copy.lock();
        console::with_log(|log| copy.clone_from(log))?;
        Some(ToldLog::write(&copy, &domain.name, told.address, text))
    }));
}

/// The pointer to a `T` at this address, if all of it is the domain's memory.
fn os_memory<T>(domain: &LiveDomain, address: u64) -> Option<*mut T> {
    let is_there = domain.memory.contains(address, size_of::<T>() as u64);
    is_there.then(|| core::ptr::with_exposed_provenance_mut(address as usize))
}

/// Reports to a waking OS how it woke. Returns false if the OS has moved its tree: memory without
/// the old report is left unchanged.
///
/// The domain's memory must be restored, and no hart may run its OS yet.
pub(crate) fn tell(domain: &LiveDomain, startup: &Startup<'_>) -> bool {
    let boot = &TOLD[domain.index].boot;
    let new = (boot.get()).and_then(|told| replace(domain, &told, startup));
    boot.set(new);
    new.is_some()
}

/// Overwrites the report with a new text, if it is still there.
fn replace(domain: &LiveDomain, told: &Report, startup: &Startup<'_>) -> Option<Report> {
    let place = os_memory::<ReportText>(domain, told.address)?;
    // SAFETY: OS memory, while no OS runs; bytes need no alignment.
    let found = unsafe { place.read() };
    let new = told.succeed(&found, startup, pmp::protection())?;
    // SAFETY: as above.
    unsafe { place.write(new.text) };
    Some(new)
}
