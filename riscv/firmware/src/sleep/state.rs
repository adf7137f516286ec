//! What machine mode brings back of a machine beside its memory
//! (docs/image-format.md, "Machine state").

use poorwill_drivers::ControllerState;
use poorwill_hart::{CaptureError, HartContext, MAX_VLENB, Section, section};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_log::{Log, ToldLog};
use poorwill_sleep::cut::ToldStatus;
use poorwill_sleep::{Core, Moment, Report, StateRefusal, WakeVector};

use crate::hart::this_hart;
use crate::platform::console::{self, say};
use crate::platform::{domain, platform};
use crate::report;

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
    capture_hart(vector, into)?;
    if let Some(report) = report::current() {
        report.write(into)?;
    }
    if let Some(told) = report::cut_status() {
        told.write(into)?;
    }
    platform().interrupts.save(into)?;
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

// A context is large: it is to be gone before the controllers are captured.
#[inline(never)]
fn capture_hart(vector: WakeVector, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let clock = &platform().time;
    let context = HartContext::capture(&this_hart().access()).map_err(no_room)?;
    let now = Moment {
        ticks: clock.ticks(),
        now_ns: clock.now_ns(),
    };
    Core::new(this_hart().id(), vector, now, context.deadline).write(into)?;
    for section in context.sections() {
        into.section(section.tag, 0, section.version, section.bytes)?;
    }
    Ok(())
}

/// Takes the state of this machine out of an image's, before anything is touched.
///
/// # Errors
///
/// [`StateRefusal`].
pub(super) fn read<'a>(sections: &mut StateSections<'a>) -> Result<MachineState<'a>, StateRefusal> {
    let core = Core::read(sections)?;
    check(&core)?;
    let report = Report::read(sections)?;
    let cut_status = ToldStatus::read(sections)?;
    let log = read_log(sections)?;
    let devices = platform().interrupts.read(sections)?;
    let mut hart = read_hart(sections)?;
    hart.deadline = Some(core.deadline());
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

/// The context of the hart that slept, once it is found to fit a hart like the
/// calling one.
fn read_hart(sections: &mut StateSections<'_>) -> Result<HartContext, StateError> {
    let hart = this_hart().access();
    let mut context = HartContext::default();
    for tag in section::TAGS {
        let Some(section) = sections.take(tag, 0) else {
            continue;
        };
        let read = Section {
            tag,
            version: section.version,
            bytes: section.payload,
        };
        // What was read before fits, so this one is at fault.
        let fits = context.read(read).is_ok() && context.check(&hart).is_ok();
        fits.then_some(()).ok_or_else(|| section.refuse())?;
    }
    Ok(context)
}

/// A hart that holds more than a section can have.
fn no_room(error: CaptureError) -> StateError {
    let CaptureError::VectorLength(vlenb) = error;
    StateError::NoRoom {
        owner: section::VECTOR,
        needed: vlenb as usize,
        left: MAX_VLENB,
    }
}

/// Whether there are a hart and a place to go on with.
fn check(core: &Core) -> Result<(), StateRefusal> {
    let hart = crate::hart::find(core.hart()).ok_or(StateRefusal::NoHart(core.hart()))?;
    let address = core.vector().address;
    match domain::of(hart.id()).executable(address) {
        Ok(_) => Ok(()),
        Err(_) => Err(StateRefusal::WakeVector(address)),
    }
}
