//! The machine's last wake from powered RAM, until all domains have woken.

use arrayvec::ArrayVec;
use poorwill_devicetree::MAX_DOMAINS;
use poorwill_sleep::RamWake;
use spin::Mutex;

use crate::domain::LiveDomain;
use crate::platform::{console, platform};

/// A wake, and each domain that has woken, with the time when it did.
type Woken = (RamWake, ArrayVec<(&'static LiveDomain, u64), MAX_DOMAINS>);

static WOKEN: Mutex<Option<Woken>> = Mutex::new(None);

/// Takes the facts of the machine's wake.
pub(super) fn begin(event: &RamWake) {
    *WOKEN.lock() = Some((*event, ArrayVec::new()));
}

/// Notes that a domain wakes now. `None`: there are no facts of this wake.
pub(super) fn add(domain: &'static LiveDomain) -> Option<RamWake> {
    let mut woken = WOKEN.lock();
    let (event, domains) = woken.as_mut()?;
    domains.push((domain, platform().time.ticks()));
    Some(*event)
}

/// Writes the wakes' lines, after the last one.
pub(super) fn tell() {
    let Some((event, domains)) = WOKEN.lock().take() else {
        return;
    };
    let time = &platform().time;
    for (domain, at) in &domains {
        let us = time.microseconds_in(at.saturating_sub(event.at));
        let line = event.of_domain(&domain.name, us);
        console::line_about(&domain.name, format_args!("{line}"));
    }
}
