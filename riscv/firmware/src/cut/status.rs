//! Decides at each start whether a power failure leads to a cut, and reports it to the OS.

use poorwill_hart::HartContext;
use poorwill_memory::EntryPoint;
use poorwill_sleep::VaultFault;
use poorwill_sleep::cut::{
    CutReason, CutStatus, HoldUpTooShort, Layout, Rehearsal, StopTime, single_lines,
};
use poorwill_state::part;
use spin::Once;
use thiserror::Error;

use super::devices::Devices;
use super::record::{self, Record};
use super::{disks, key, stop};
use crate::domain::{self, report};
use crate::entry;
use crate::hart::{self, ThisHart, place_of};
use crate::platform::bus::{self, BusObstacle};
use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power_fail::{CutObstacle, PowerFail};

/// Why a power failure does not lead to a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum NotArmed {
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
    /// Stop would not end in time.
    #[error(transparent)]
    HoldUp(#[from] HoldUpTooShort),
}

/// The armed line with the microseconds that Stop takes, or the reason why it is not armed.
pub(super) type Armed = Result<(&'static PowerFail, u64), NotArmed>;

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

/// Decides whether a power failure leads to a cut. `time` gives the time of a Stop. `None` on a machine
/// without a power-fail line.
fn decide(time: impl FnOnce(&PowerFail) -> Result<StopTime, CutReason>) -> Option<Armed> {
    let line = platform().power_fail.as_ref()?.as_ref();
    let can_be_cut = |line: &'static PowerFail| {
        bus::obstacle().map_or(Ok(()), Err)?;
        key::is_kept()?;
        let stop_us = line.keep_stop(time(line)?)?;
        Ok((line, stop_us))
    };
    Some(line.map_err(|error| (*error).into()).and_then(can_be_cut))
}

/// Arms the line if it can be used: from now on it interrupts the first hart.
pub(super) fn arm(armed: Armed) {
    if let Ok((line, _)) = armed {
        line.arm();
    }
    ARMED.call_once(|| armed);
}

/// The status for the console and the OS.
fn status(armed: Armed) -> CutStatus<NotArmed> {
    match armed {
        Ok((line, stop_us)) => CutStatus::Armed {
            hold_up_us: line.hold_up_us(),
            stop_us,
            slow_disks: tell_slow_disks(line),
        },
        Err(reason) => CutStatus::NotArmed(reason),
    }
}

/// Decides it again after a Go from a cut whose Stop took `after` ticks from the last quiet device to the
/// commit. Reports it on the console. Call this before the OS runs.
pub(super) fn decide_again(after: u64) -> Option<Armed> {
    let armed = decide(|_| Ok(StopTime::measured(after)))?;
    say!("cut: {}", status(armed));
    Some(armed)
}

/// Decides whether a power failure leads to a cut, reports it on the console and to the OS, and
/// arms the line. Call this at each start without a Go, after the OS's device tree is in its final
/// place and before the OS runs.
pub(crate) fn begin(own: ThisHart) {
    let rehearse =
        |record: Record, line: &PowerFail| record.on_stack(|| rehearse(record, own, line));
    let time = |line: &PowerFail| {
        let record = record::record();
        record.map_or(Ok(StopTime::default()), |record| rehearse(record, line))
    };
    let Some(armed) = decide(time) else {
        return;
    };
    let status = status(armed);
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

/// Does what Stop does with an idle machine, except that it makes no entries, so that the record stays
/// invalid. Returns the time of a Stop.
fn rehearse(record: Record, own: ThisHart, line: &PowerFail) -> Result<StopTime, CutReason> {
    // SAFETY: no OS runs yet.
    let devices = unsafe { Devices::new(record) };
    let (_, survey) = timed(|| devices.reach_memory())?;
    HartContext::check_capture(&own.access()).map_err(|_| CutReason::HartState(own.id()))?;
    let frame = entry::frame_at(EntryPoint::default());
    let ((), hart) = timed(|| {
        let mut part = record.part(Layout::hart(place_of(&own)));
        part::check_room(&own.access(), part.pages().len())?;
        let bytes = stop::write_part(own, &frame, &mut part)?;
        part.digest(bytes)?;
        stop::are_written_back(own, line.caches().write_back_own())
    })?;
    let (written, shared) = timed(|| {
        let mut shared = record.part(Layout::SHARED);
        let shared_bytes = stop::write_shared(&mut shared, None, None)?;
        shared.digest(shared_bytes)?;
        let mut tree = record.part(Layout::TREE);
        // SAFETY: no OS runs yet.
        let tree_bytes = unsafe { stop::write_tree(&mut tree, own) }?;
        tree.digest(tree_bytes)?;
        Ok(shared_bytes + tree_bytes)
    })?;
    let write_back = || stop::are_written_back(own, line.caches().write_back_rest());
    let ((), flush) = timed(write_back)?;
    // Longer than that, the line is not armed anyway, and the start need not wait again.
    let clean = match flush <= line.hold_up_ticks() {
        true => timed(write_back)?.1,
        false => 0,
    };
    let times = Rehearsal {
        survey,
        hart,
        shared,
        flush,
        clean,
        passes: line
            .caches()
            .passes(single_lines(line.controller().wear_words())),
        written,
    };
    let harts = hart::all().len();
    Ok(times.predict(harts as u64, line.caches().bytes(harts)))
}

/// Runs `job`. Returns its result, and the ticks that it took.
fn timed<T>(job: impl FnOnce() -> Result<T, CutReason>) -> Result<(T, u64), CutReason> {
    let time = &platform().time;
    let began = time.ticks();
    let result = job()?;
    Ok((result, time.ticks() - began))
}
