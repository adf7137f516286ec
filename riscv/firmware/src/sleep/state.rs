//! What machine mode brings back of a machine beside its memory
//! (docs/image-format.md, "State").

use poorwill_drivers::ControllerState;
use poorwill_hart::HartContext;
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_log::{Log, ToldLog};
use poorwill_sleep::cut::ToldStatus;
use poorwill_sleep::{Core, Report, StateRefusal, WakeVector};

use crate::platform::console::{self, say};
use crate::platform::platform;
use crate::{report, sleeper};

/// The state of a machine, read from an image and found to fit this one.
#[derive(Debug)]
pub(super) struct MachineState<'a> {
    pub(super) core: Core,
    pub(super) hart: HartContext,
    pub(super) devices: ControllerState<'a>,
    /// What the OS was told of how it came up.
    pub(super) report: Option<Report>,
    /// What it was told of cuts.
    pub(super) cut_status: Option<ToldStatus>,
    /// The log of before, and where the OS has it.
    pub(super) log: Option<(&'a Log, ToldLog)>,
}

/// Writes down the state of the calling hart and of the devices.
///
/// # Errors
///
/// [`StateError::NoRoom`], also for vector registers longer than an image can have.
pub(super) fn capture(vector: WakeVector, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    sleeper::capture(vector, into)?;
    if let Some(report) = report::current() {
        report.write(into)?;
    }
    if let Some(told) = report::cut_status() {
        told.write(into)?;
    }
    platform().interrupts.save(None, into)?;
    capture_log(into);
    Ok(())
}

/// Writes down the log, and where the OS has it. That is no reason not to sleep: where
/// there is no room, an image is without.
fn capture_log(into: &mut StateWriter<'_>) {
    let Some(told) = report::log() else { return };
    let ((text, version), (place, place_version)) = (Log::SECTION, ToldLog::SECTION);
    let written = console::with_log(|log| {
        into.section(place, 0, place_version, &told)?;
        into.section(text, 0, version, log)
    });
    if let Some(Err(error)) = written {
        say!("the log is not kept: {error}");
    }
}

/// Takes the state of this machine out of an image's, before anything is touched.
///
/// # Errors
///
/// [`StateRefusal`].
pub(super) fn read<'a>(sections: &mut StateSections<'a>) -> Result<MachineState<'a>, StateRefusal> {
    let (core, hart) = sleeper::read(sections)?;
    let report = Report::read(sections)?;
    let cut_status = ToldStatus::read(sections)?;
    let log = read_log(sections)?;
    let devices = platform().interrupts.read(sections)?;
    Ok(MachineState {
        core,
        hart,
        devices,
        report,
        cut_status,
        log,
    })
}

/// The log of before, if the image has it, and where the OS finds it.
fn read_log<'a>(
    sections: &mut StateSections<'a>,
) -> Result<Option<(&'a Log, ToldLog)>, StateError> {
    let ((text, version), (place, place_version)) = (Log::SECTION, ToldLog::SECTION);
    let text = sections.take(text, 0);
    let text = text.map(|text| text.read::<Log>(version)).transpose()?;
    let told = sections.take(place, 0);
    let told = told
        .map(|told| told.read::<ToldLog>(place_version))
        .transpose()?;
    Ok(text.zip(told.copied()))
}
