//! What a power failure would come to, as far as that is known before it: told at each
//! start, and to the OS.

use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_devicetree::PowerFailError;
use poorwill_hart::HartContext;
use poorwill_sleep::VaultFault;
use poorwill_sleep::cut::{CutReason, CutStatus, Layout};
use spin::Once;
use thiserror::Error;

use super::record::{self, Record, place_of};
use super::{context, disks, key, stop};
use crate::entry::stack;
use crate::hart::ThisHart;
use crate::platform::bus::{self, BusObstacle};
use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power_fail::{self, CutObstacle, PowerFail};
use crate::report;

/// Why no cut is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum NotArmed {
    /// The power-fail node is of no use.
    #[error(transparent)]
    Line(#[from] PowerFailError),
    /// The caches cannot be written back, or wear is levelled where it must not be.
    #[error(transparent)]
    Memory(#[from] CutObstacle),
    /// A device on the bus of memory cannot be kept.
    #[error(transparent)]
    Bus(#[from] BusObstacle),
    /// There would be no proof.
    #[error(transparent)]
    Vault(#[from] VaultFault),
    /// What Stop would find.
    #[error(transparent)]
    Stop(#[from] CutReason),
}

/// What was found at the start that Stop would find.
static REHEARSED: Once<Result<(), CutReason>> = Once::new();

/// Whether the device tree describes a power-fail line, be it of use or not.
pub(crate) fn has_line() -> bool {
    let platform = platform();
    // The memory is there wherever the tree names one that is.
    platform.power_fail_error.is_some() || record::record().is_some()
}

/// The line, if a cut can be armed; `None` on a machine that is not said to have one.
fn line() -> Option<Result<&'static PowerFail, NotArmed>> {
    let platform = platform();
    let node = platform.power_fail_error.map(NotArmed::from);
    if let Some(reason) = node.or_else(|| power_fail::refused().map(NotArmed::from)) {
        return Some(Err(reason));
    }
    let line = platform.power_fail.as_ref()?;
    if let Some(reason) = bus::obstacle() {
        return Some(Err(reason.into()));
    }
    let check = || {
        key::is_kept()?;
        REHEARSED.get().copied().unwrap_or(Ok(()))?;
        Ok(line)
    };
    Some(check())
}

/// The line may interrupt the machine.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

/// Whether the machine can be cut.
pub(crate) fn is_armed() -> bool {
    IS_ARMED.load(Ordering::Relaxed) && matches!(line(), Some(Ok(_)))
}

/// Lets the line interrupt the machine from now on.
fn arm_line(line: &PowerFail) {
    line.arm();
    IS_ARMED.store(true, Ordering::Relaxed);
}

/// Lets the line interrupt the machine from now on, if it can be cut.
pub(super) fn arm() {
    match line() {
        Some(Ok(line)) => arm_line(line),
        Some(Err(reason)) => say!("cut: {}", CutStatus::NotArmed(reason)),
        None => {}
    }
}

/// Looks for what would keep this machine from being cut, says what comes of it, to the OS
/// as well, and arms the line. To be called at a start, when the OS's device tree is in its
/// place, and before any of the OS runs.
pub(crate) fn begin(own: ThisHart) {
    if let Some(record) = record::record().filter(|_| bus::obstacle().is_none()) {
        let own_stack = record.stack(place_of(&own));
        REHEARSED.call_once(|| {
            // SAFETY: the hart's own, and nothing of it is in use: a cut is not armed yet.
            unsafe { stack::on(own_stack.end as usize, || rehearse(&record, own)) }
        });
    }
    let Some(line) = line() else { return };
    let status = match line {
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
    report::tell_cut_status(&status);
    report::tell_log();
    if let Ok(line) = line {
        arm_line(line);
    }
}

/// Says which disks would refuse a cut once they are in use, and returns how many.
fn tell_slow_disks(line: &PowerFail) -> usize {
    let left_us = platform().time.microseconds_in(line.quiet_ticks());
    disks::too_slow(left_us, |location, us| {
        say!(
            "cut: NVMe at {location} may take {us} us to write its cache: no cut while it is in use"
        );
    })
}

/// Finds what Stop would find of this machine whatever the OS does, by what Stop does.
fn rehearse(record: &Record, own: ThisHart) -> Result<(), CutReason> {
    HartContext::check_capture(&own.access()).map_err(|_| CutReason::HartState(own.id()))?;
    context::check_room(own, record.part(Layout::hart(place_of(&own))).len())?;
    // SAFETY: no OS runs, and nothing is armed: nobody else uses the record's parts.
    unsafe { stop::write_shared(record, own, None, None) }.map(|_| ())
}
