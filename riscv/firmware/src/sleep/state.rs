//! What machine mode brings back of a machine beside its memory
//! (docs/image-format.md, "Machine state").

use arrayvec::ArrayVec;
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_sleep::{StateRefusal, WakeVector};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::arch::float::{self, FloatRegisters};
use crate::arch::{Resume, SUPERVISOR_CSRS, SupervisorCsr};
use crate::hart::this_hart;
use crate::platform::interrupts::{DeviceState, FileState};
use crate::platform::{domain, platform, time};
use crate::report::{self, Report};

/// Owners of the sections of this module; the interrupt controllers have theirs.
mod owner {
    pub(super) const CORE: u32 = u32::from_le_bytes(*b"CORE");
    pub(super) const CSRS: u32 = u32::from_le_bytes(*b"CSRS");
    pub(super) const FLOAT: u32 = u32::from_le_bytes(*b"FLOT");
    pub(super) const REPORT: u32 = u32::from_le_bytes(*b"REPT");
}

/// Version of the sections of this module.
const VERSION: u16 = 1;

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

/// One CSR and its value.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct CsrValue {
    number: u64,
    value: u64,
}

/// What only the waking hart itself can put back.
#[derive(Debug)]
pub(super) struct HartState {
    deadline: u64,
    csrs: ArrayVec<CsrValue, 64>,
    float: Option<FloatRegisters>,
    file: Option<FileState>,
}

impl HartState {
    /// Puts it back on the calling hart. The interrupt file comes before the
    /// CSRs, as it is reached through one of them.
    pub(super) fn restore(&self) {
        if let Some(file) = &self.file {
            platform().interrupts.restore_file(file);
        }
        for CsrValue { number, value } in &self.csrs {
            let known = SUPERVISOR_CSRS
                .iter()
                .find(|csr| u64::from(csr.number) == *number);
            // What is as it was is not touched: writing `vstimecmp`, even with
            // what it holds, may make a timer ring that nobody has set.
            if let Some(SupervisorCsr { read, write, .. }) = known
                && read() != Some(*value)
            {
                write(*value);
            }
        }
        if let Some(registers) = &self.float {
            float::restore(registers);
        }
        let hart = this_hart();
        if !hart.description.extensions.sstc {
            time::set_supervisor_timer(hart, self.deadline);
        }
    }
}

/// The state of a machine, read from an image and found to fit this one.
#[derive(Debug)]
pub(super) struct MachineState<'a> {
    pub(super) core: Core,
    pub(super) hart: HartState,
    pub(super) devices: DeviceState<'a>,
    /// What the OS was told of how it came up.
    pub(super) report: Option<Report>,
}

/// Writes down the state of the calling hart and of the devices.
///
/// # Errors
///
/// [`StateError::NoRoom`].
pub(super) fn capture(vector: WakeVector, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let clock = &platform().time;
    let core = Core {
        hart: this_hart().id(),
        address: vector.address,
        argument: vector.argument,
        ticks: clock.ticks(),
        now_ns: clock.now_ns().unwrap_or(NO_TIME),
        deadline: time::supervisor_deadline(this_hart()),
    };
    into.section(owner::CORE, 0, VERSION, &core)?;
    let csrs: ArrayVec<CsrValue, 64> = SUPERVISOR_CSRS
        .iter()
        .filter_map(|csr| {
            Some(CsrValue {
                number: csr.number.into(),
                value: (csr.read)()?,
            })
        })
        .collect();
    into.section(owner::CSRS, 0, VERSION, &csrs[..])?;
    if let Some(registers) = float::save() {
        into.section(owner::FLOAT, 0, VERSION, &registers)?;
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
    let mut csrs = ArrayVec::new();
    if let Some(section) = section(owner::CSRS) {
        let list = section.read::<[CsrValue]>(VERSION)?;
        csrs.try_extend_from_slice(list)
            .map_err(|_| section.refuse())?;
    }
    let float = match section(owner::FLOAT) {
        Some(section) => Some(*section.read::<FloatRegisters>(VERSION)?),
        None => None,
    };
    let report = match section(owner::REPORT) {
        Some(section) => Some(*section.read::<Report>(VERSION)?),
        None => None,
    };
    let (devices, file) = platform().interrupts.read(sections)?;
    let hart = HartState {
        deadline: core.deadline,
        csrs,
        float,
        file,
    };
    Ok(MachineState {
        core,
        hart,
        devices,
        report,
    })
}

fn check(core: Core) -> Result<(), StateRefusal> {
    let hart = crate::hart::find(core.hart).ok_or(StateRefusal::NoHart(core.hart))?;
    let found = domain::of(hart).executable(core.address);
    found
        .map(|_| ())
        .map_err(|_| StateRefusal::WakeVector(core.address))
}
