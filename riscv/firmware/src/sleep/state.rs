//! What machine mode brings back of a machine beside its memory
//! (docs/image-format.md, "Machine state").

use arrayvec::ArrayVec;
use poorwill_image::{Record, StateError, StateReader, StateWriter};
use poorwill_store::{DiskChanged, PartitionGuard, unchanged};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::arch::float::{self, FloatRegisters};
use crate::arch::{Resume, SUPERVISOR_CSRS, SupervisorCsr};
use crate::hart::this_hart;
use crate::platform::interrupts::{DeviceState, FileState};
use crate::platform::{platform, time};
use crate::report::{self, Report};

/// Tags of the records of this module; the interrupt controllers have theirs.
mod tag {
    pub(super) const CORE: u32 = u32::from_le_bytes(*b"CORE");
    pub(super) const CSRS: u32 = u32::from_le_bytes(*b"CSRS");
    pub(super) const FLOAT: u32 = u32::from_le_bytes(*b"FLOT");
    pub(super) const REPORT: u32 = u32::from_le_bytes(*b"REPT");
    pub(super) const GUARDS: u32 = u32::from_le_bytes(*b"GRDS");
}

/// Version of the records of this module.
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
    /// The guards of a snapshot's partitions.
    guards: &'a [PartitionGuard],
}

impl MachineState<'_> {
    /// Whether the disk is as the snapshot's OS knows it.
    ///
    /// # Errors
    ///
    /// [`StateRefusal::Disk`].
    pub(super) fn check_disk(&self, now: &[PartitionGuard]) -> Result<(), StateRefusal> {
        Ok(unchanged(self.guards, now)?)
    }
}

/// Why the state of an image cannot be put back here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum StateRefusal {
    /// A record is malformed, or not of this machine.
    #[error(transparent)]
    Record(#[from] StateError),
    /// A record that this version does not know.
    #[error("record {0:#x} of the machine's state is not known to this version")]
    Unknown(u32),
    /// There is no core record.
    #[error("the machine's state does not say where the OS goes on")]
    NoCore,
    /// The hart that slept is not there.
    #[error("hart {0}, which slept, is not there")]
    NoHart(u64),
    /// The snapshot knows its disk otherwise.
    #[error("{0}: the snapshot does not fit it any more")]
    Disk(#[from] DiskChanged),
    /// The wake vector lies outside OS memory.
    #[error("the wake vector {0:#x} is not in OS memory")]
    WakeVector(u64),
}

/// Writes down the state of the calling hart and of the devices, and for a snapshot
/// the guards of its partitions.
///
/// # Errors
///
/// [`StateError::NoRoom`].
pub(super) fn capture(
    resume: Resume,
    guards: &[PartitionGuard],
    into: &mut StateWriter<'_>,
) -> Result<(), StateError> {
    let clock = &platform().time;
    let core = Core {
        hart: this_hart().id(),
        address: resume.address,
        argument: resume.argument,
        ticks: clock.ticks(),
        now_ns: clock.now_ns().unwrap_or(NO_TIME),
        deadline: time::supervisor_deadline(this_hart()),
    };
    into.record(tag::CORE, VERSION, &core)?;
    let csrs: ArrayVec<CsrValue, 64> = SUPERVISOR_CSRS
        .iter()
        .filter_map(|csr| {
            Some(CsrValue {
                number: csr.number.into(),
                value: (csr.read)()?,
            })
        })
        .collect();
    into.record(tag::CSRS, VERSION, &csrs[..])?;
    if let Some(registers) = float::save() {
        into.record(tag::FLOAT, VERSION, &registers)?;
    }
    if let Some(report) = report::current() {
        into.record(tag::REPORT, VERSION, &report)?;
    }
    if !guards.is_empty() {
        into.record(tag::GUARDS, VERSION, guards)?;
    }
    platform().interrupts.save(into)
}

/// Reads the state of an image, all of it, before anything is touched.
///
/// # Errors
///
/// [`StateRefusal`].
pub(super) fn read(records: StateReader<'_>) -> Result<MachineState<'_>, StateRefusal> {
    let mut core = None;
    let mut hart = HartState {
        deadline: u64::MAX,
        csrs: ArrayVec::new(),
        float: None,
        file: None,
    };
    let mut devices = DeviceState::default();
    let mut report = None;
    let mut guards: &[PartitionGuard] = &[];
    for record in records {
        let record = record?;
        match record.tag {
            tag::CORE => core = Some(*typed::<Core>(&record)?),
            tag::CSRS => {
                let list = typed::<[CsrValue]>(&record)?;
                hart.csrs
                    .try_extend_from_slice(list)
                    .map_err(|_| refused(&record))?;
            }
            tag::FLOAT => hart.float = Some(*typed::<FloatRegisters>(&record)?),
            tag::REPORT => report = Some(*typed::<Report>(&record)?),
            tag::GUARDS => guards = typed::<[PartitionGuard]>(&record)?,
            tag => {
                let taken = platform()
                    .interrupts
                    .read(&record, &mut devices, &mut hart.file)?;
                if !taken {
                    return Err(StateRefusal::Unknown(tag));
                }
            }
        }
    }
    let core = core.ok_or(StateRefusal::NoCore)?;
    check(core)?;
    hart.deadline = core.deadline;
    Ok(MachineState {
        core,
        hart,
        devices,
        report,
        guards,
    })
}

fn check(core: Core) -> Result<(), StateRefusal> {
    crate::hart::find(core.hart).ok_or(StateRefusal::NoHart(core.hart))?;
    if !platform().memory.contains(core.address, 2) {
        return Err(StateRefusal::WakeVector(core.address));
    }
    Ok(())
}

fn typed<'a, T>(record: &Record<'a>) -> Result<&'a T, StateError>
where
    T: FromBytes + KnownLayout + Immutable + ?Sized,
{
    T::ref_from_bytes(record.payload)
        .ok()
        .filter(|_| record.version == VERSION)
        .ok_or_else(|| refused(record))
}

fn refused(record: &Record<'_>) -> StateError {
    StateError::Payload {
        tag: record.tag,
        version: record.version,
        found: record.payload.len(),
    }
}
