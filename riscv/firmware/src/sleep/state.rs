//! What machine mode brings back of a machine beside its memory
//! (docs/image-format.md, "Machine state").

use poorwill_drivers::ControllerState;
use poorwill_hart::{CaptureError, HartContext, MAX_VLENB, Misfit, Resume, Section, section};
use poorwill_image::{StateError, StateSection, StateSections, StateWriter};
use poorwill_manifest::SectionVersion;
use poorwill_sleep::{StateRefusal, WakeVector};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::hart::this_hart;
use crate::platform::{domain, platform};
use crate::report::{self, Report};

/// Owners of the sections of this module; the interrupt controllers and the
/// hart have theirs.
mod owner {
    pub(super) const CORE: u32 = u32::from_le_bytes(*b"CORE");
    pub(super) const REPORT: u32 = u32::from_le_bytes(*b"REPT");
}

/// Version of the sections of this module.
const VERSION: u16 = 1;

/// The sections of this module, and of the hart's context and the partitions, which
/// are read with them.
pub(crate) const SECTIONS: [SectionVersion; 7] = {
    let [csrs, float, vector, file] = section::TAGS;
    let context = section::VERSION;
    let (partitions, partitions_version) = poorwill_sleep::PARTITIONS_SECTION;
    [
        of(owner::CORE, VERSION),
        of(owner::REPORT, VERSION),
        of(csrs, context),
        of(float, context),
        of(vector, context),
        of(file, context),
        of(partitions, partitions_version),
    ]
};

const fn of(owner: u32, version: u16) -> SectionVersion {
    SectionVersion { owner, version }
}

/// The time is not known: the machine has no clock that runs without power.
const NO_TIME: u64 = 0;

/// What is needed to go on at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Core {
    /// The hart that slept, and wakes.
    pub(super) hart: u64,
    address: u64,
    argument: u64,
    /// `time` at the sleep.
    ticks: u64,
    /// Nanoseconds since the Unix epoch at that moment, or [`NO_TIME`].
    now_ns: u64,
    /// When the OS's timer of this hart was to ring, where machine mode keeps it
    /// (no Sstc); all ones when it is not set.
    deadline: u64,
}

impl Core {
    /// Where the OS goes on.
    pub(super) fn resume(&self) -> Resume {
        Resume {
            address: self.address,
            argument: self.argument,
        }
    }

    /// What `time` is to be now: it has gone on while the power was off.
    /// Without a clock, or with one that was set back, it goes on where it was.
    pub(super) fn ticks_now(&self) -> u64 {
        let clock = &platform().time;
        let slept_ns = match (self.now_ns, clock.now_ns()) {
            (NO_TIME, _) | (_, None) => 0,
            (then, Some(now)) => now.saturating_sub(then),
        };
        self.ticks.saturating_add(clock.ticks_in(slept_ns))
    }
}

/// [`Core::deadline`] where no timer is set, or where the OS keeps it.
const NO_DEADLINE: u64 = u64::MAX;

/// The state of a machine, read from an image and found to fit this one.
#[derive(Debug)]
pub(super) struct MachineState<'a> {
    pub(super) core: Core,
    pub(super) hart: HartContext,
    pub(super) devices: ControllerState<'a>,
    /// What the OS was told of how it came up.
    pub(super) report: Option<Report>,
}

/// Writes down the state of the calling hart and of the devices.
///
/// # Errors
///
/// [`StateError::NoRoom`], also for vector registers longer than an image can have.
pub(super) fn capture(vector: WakeVector, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let clock = &platform().time;
    let context = HartContext::capture(&this_hart().access()).map_err(no_room)?;
    let core = Core {
        hart: this_hart().id(),
        address: vector.address,
        argument: vector.argument,
        ticks: clock.ticks(),
        now_ns: clock.now_ns().unwrap_or(NO_TIME),
        deadline: context.deadline.unwrap_or(NO_DEADLINE),
    };
    into.section(owner::CORE, 0, VERSION, &core)?;
    for section in context.sections() {
        into.section(section.tag, 0, section.version, section.bytes)?;
    }
    if let Some(report) = report::current() {
        into.section(owner::REPORT, 0, VERSION, &report)?;
    }
    platform().interrupts.save(into)
}

/// Takes the state of this machine out of an image's, before anything is touched.
///
/// # Errors
///
/// [`StateRefusal`].
pub(super) fn read<'a>(sections: &mut StateSections<'a>) -> Result<MachineState<'a>, StateRefusal> {
    let mut section = |owner| sections.take(owner, 0);
    let core = section(owner::CORE).ok_or(StateRefusal::NoCore)?;
    let core = *core.read::<Core>(VERSION)?;
    check(core)?;
    let report = match section(owner::REPORT) {
        Some(section) => Some(*section.read::<Report>(VERSION)?),
        None => None,
    };
    let devices = platform().interrupts.read(sections)?;
    let mut hart = read_hart(sections)?;
    hart.deadline = Some(core.deadline);
    Ok(MachineState {
        core,
        hart,
        devices,
        report,
    })
}

/// The context of the hart that slept, once it is found to fit a hart like the
/// calling one.
fn read_hart(sections: &mut StateSections<'_>) -> Result<HartContext, StateError> {
    let mut context = HartContext::default();
    let mut taken = [None; section::TAGS.len()];
    for (taken, tag) in taken.iter_mut().zip(section::TAGS) {
        *taken = sections.take(tag, 0);
        if let Some(section) = taken {
            let section = *section;
            let read = context.read(Section {
                tag,
                version: section.version,
                bytes: section.payload,
            });
            read.map_err(|_| section.refuse())?;
        }
    }
    context.check(&this_hart().access()).map_err(|misfit| {
        let tag = match misfit {
            Misfit::VectorLength { .. } => section::VECTOR,
            Misfit::File { .. } => section::FILE,
        };
        let of_tag = |section: &&StateSection<'_>| section.owner == tag;
        let section = taken.iter().flatten().find(of_tag);
        section.expect("what does not fit was read").refuse()
    })?;
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

fn check(core: Core) -> Result<(), StateRefusal> {
    let hart = crate::hart::find(core.hart).ok_or(StateRefusal::NoHart(core.hart))?;
    let found = domain::of(hart.id()).executable(core.address);
    found
        .map(|_| ())
        .map_err(|_| StateRefusal::WakeVector(core.address))
}
