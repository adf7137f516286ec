//! Decides at each start whether a power failure leads to a cut, and reports it to the OS.

use poorwill_hart::HartContext;
use poorwill_sleep::VaultFault;
use poorwill_sleep::cut::{CutReason, CutStatus, Layout};
use poorwill_state::part;
use spin::Once;
use thiserror::Error;

use super::record::{self, Record, place_of};
use super::{disks, key, stop};
use crate::domain::{self, report};
use crate::hart::ThisHart;
use crate::platform::bus::{self, BusObstacle};
use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power_fail::{CutObstacle, PowerFail};

/// Why a power failure does not lead to a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum NotArmed {
    /// The power-fail line cannot be used.
    #[error(transparent)]
    Line(#[from] CutObstacle),
    /// No keeper can keep the state of a device on the bus of memory.
    #[error(transparent)]
    Bus(#[from] BusObstacle),
    /// The vault gives no proof.
    #[error(transparent)]
    Vault(#[from] VaultFault),
    /// Stop would refuse the cut.
    #[error(transparent)]
    Stop(#[from] CutReason),
}

/// The armed line, or the reason why it is not armed.
type Armed = Result<&'static PowerFail, NotArmed>;

/// Each start sets this once.
static ARMED: Once<Armed> = Once::new();

/// Returns whether the device tree describes a power-fail line, even an unusable one.
pub(crate) fn has_line() -> bool {
    platform().power_fail.is_some()
}

/// Returns whether a power failure now would lead to a cut. The vault may have failed since the
/// start.
pub(crate) fn is_armed() -> bool {
    matches!(ARMED.get(), Some(Ok(_))) && key::is_kept().is_ok()
}

/// Decides whether a power failure leads to a cut; `rehearse` writes the record as Stop would.
/// `None` on a machine without a power-fail line.
fn decide(rehearse: impl FnOnce() -> Result<(), CutReason>) -> Option<Armed> {
    let line = platform().power_fail.as_ref()?.as_ref();
    let can_be_cut = |line| {
        bus::obstacle().map_or(Ok(()), Err)?;
        key::is_kept()?;
        rehearse()?;
        Ok(line)
    };
    Some(line.map_err(|error| (*error).into()).and_then(can_be_cut))
}

/// Arms the line if it can be used: from now on it interrupts the first hart.
fn arm(armed: Armed) {
    if let Ok(line) = armed {
        line.arm();
    }
    ARMED.call_once(|| armed);
}

/// Arms the line again after a Go.
pub(crate) fn arm_again() {
    let Some(armed) = decide(|| Ok(())) else {
        return;
    };
    if let Err(reason) = armed {
        say!("cut: {}", CutStatus::NotArmed(reason));
    }
    arm(armed);
}

/// Decides whether a power failure leads to a cut, reports it on the console and to the OS, and
/// arms the line. Call this at each start without a Go, after the OS's device tree is in its final
/// place and before the OS runs.
pub(crate) fn begin(own: ThisHart) {
    let rehearse = |record: Record| record.on_stack(|| rehearse(record, own));
    let Some(armed) = decide(|| record::record().map_or(Ok(()), rehearse)) else {
        return;
    };
    let status = match armed {
        Ok(line) => CutStatus::Armed {
            hold_up_us: line.hold_up_us(),
            slow_disks: tell_slow_disks(line),
        },
        Err(reason) => CutStatus::NotArmed(reason),
    };
    for name in bus::unkept() {
        say!("cut: nothing keeps the state of {name}");
    }
    say!("cut: {status}");
    for domain in domain::all() {
        report::tell_cut_status(domain, &status);
        report::tell_log(domain);
    }
    arm(armed);
}

/// Names the disks that would refuse a cut while the OS uses them. Returns their number.
fn tell_slow_disks(line: &PowerFail) -> usize {
    let left_us = platform().time.microseconds_in(line.quiet_ticks());
    disks::too_slow(left_us, |location, us| {
        say!(
            "cut: NVMe at {location} may take {us} us to write its cache: no cut while it is in use"
        );
    })
}

/// Writes all parts of the record as Stop would, except that of PCI devices. Makes no entries, so
/// the record stays invalid.
fn rehearse(record: Record, own: ThisHart) -> Result<(), CutReason> {
    HartContext::check_capture(&own.access()).map_err(|_| CutReason::HartState(own.id()))?;
    let part = record.part(Layout::hart(place_of(&own)));
    part::check_room(&own.access(), part.pages().len())?;
    stop::write_shared(&mut record.part(Layout::SHARED), None, None)?;
    // SAFETY: no OS runs yet.
    unsafe { stop::write_tree(&mut record.part(Layout::TREE), own) }?;
    Ok(())
}
