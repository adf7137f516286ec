//! What all harts share, as the record has it.

use arrayvec::ArrayVec;
use poorwill_devicetree::MAX_HARTS;
use poorwill_drivers::uart::UartState;
use poorwill_drivers::{ControllerState, RtcState, ShutDomains};
use poorwill_hart::{Resume, Task};
use poorwill_image::{SealedMemory, StateError, StateSections, StateWriter};
use poorwill_log::ToldLog;
use poorwill_memory::{MachineIdentity, Page};
use poorwill_sleep::Report;
use poorwill_sleep::cut::{CutMemory, CutReason, Layout, Place, ToldStatus};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::Record;
use super::sealed;
use crate::hart::{self, Hart, ThisHart};
use crate::platform::bus::{self, BusState};
use crate::platform::console::{self, say};
use crate::platform::{domain, generation_id, platform};
use crate::report;

/// The memory that the loader writes at a power-on: the device tree.
///
/// # Safety
///
/// No hart runs the OS, and nobody else refers to that memory.
pub(super) unsafe fn loaded_memory(own: ThisHart) -> &'static mut [u8] {
    let tree = domain::of(own.id()).next_stage.tree;
    // SAFETY: memory of the OS, and as the caller says.
    unsafe { crate::next_stage::tree(tree) }
}

/// What a hart does after a power-on.
const STOPPED: u64 = 0;
const GOES_ON: u64 = 1;
const STARTS: u64 = 2;
/// It wakes, where the OS said as it asked for a sleep.
const WAKES: u64 = 3;

/// How a hart is to be started.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct HartStart {
    id: u64,
    does: u64,
    address: u64,
    argument: u64,
}

/// The machine, and its time.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    ticks: u64,
    /// Of memory, harts, ISA and device tree.
    identity: [u64; 4],
}

impl Head {
    fn now() -> Self {
        let MachineIdentity {
            memory,
            harts,
            isa,
            device_tree,
        } = platform().identity;
        Head {
            ticks: platform().time.ticks(),
            identity: [memory, harts, isa, device_tree],
        }
    }
}

/// Owners and versions of the sections of what harts share, beside those that images have.
mod section {
    pub(super) const HEAD: (u32, u16) = (u32::from_le_bytes(*b"CUTM"), 1);
    pub(super) const HARTS: (u32, u16) = (u32::from_le_bytes(*b"HSMS"), 1);
    pub(super) const GENERATION: (u32, u16) = (u32::from_le_bytes(*b"GENI"), 1);
    pub(super) const CLOCK: (u32, u16) = (u32::from_le_bytes(*b"RTCS"), 1);
    /// The console's; those of other UARTs are numbered from 1 on.
    pub(super) const UART: (u32, u16) = (u32::from_le_bytes(*b"UART"), 1);
    pub(super) const FW_CFG: (u32, u16) = (u32::from_le_bytes(*b"FWCF"), 1);
    pub(super) const FLASH: (u32, u16) = (u32::from_le_bytes(*b"CFIM"), 1);
    pub(super) const VIRTIO: (u32, u16) = (u32::from_le_bytes(*b"VMIO"), 1);
    pub(super) const REFUSED: (u32, u16) = (u32::from_le_bytes(*b"SUSP"), 1);
    pub(super) const AMID_LINE: (u32, u16) = (u32::from_le_bytes(*b"LINE"), 1);
    pub(super) const SEALED: (u32, u16) = (u32::from_le_bytes(*b"SEAL"), 1);
}

/// Writes down what all harts share, while none runs the OS. The one that asked for a sleep, if
/// that is so, is to wake there. `shut` has what the OS's APLICs did before they were shut.
///
/// # Errors
///
/// [`StateError::NoRoom`].
pub(super) fn write(
    record: &Record,
    vector: Option<Resume>,
    shut: Option<&ShutDomains>,
    into: &mut StateWriter<'_>,
) -> Result<(), StateError> {
    // First: what reads the clock changes it.
    if let Some(clock) = platform().time.clock_state() {
        let (owner, version) = section::CLOCK;
        into.section(owner, 0, version, &clock)?;
    }
    let mut section = |(owner, version), payload: &[u8]| into.section(owner, 0, version, payload);
    section(section::HEAD, Head::now().as_bytes())?;
    let harts = hart::all().iter().enumerate();
    let starts: ArrayVec<HartStart, MAX_HARTS> = harts
        .map(|(place, hart)| HartStart::of(record, place, hart, vector))
        .collect();
    section(section::HARTS, starts.as_bytes())?;
    if let Some(uart) = console::capture() {
        section(section::UART, uart.as_bytes())?;
    }
    if console::is_amid_line() {
        section(section::AMID_LINE, &[])?;
    }
    if sealed::is_refused() {
        section(section::REFUSED, &[])?;
    }
    if let Some(sealed) = sealed::left() {
        section(section::SEALED, sealed.as_bytes())?;
    }
    if let Some(id) = &platform().generation_id {
        section(section::GENERATION, &id.bytes())?;
    }
    if let Some(log) = report::log() {
        section(ToldLog::SECTION, log.as_bytes())?;
    }
    if let Some(report) = report::current() {
        report.write(into)?;
    }
    if let Some(told) = report::cut_status() {
        told.write(into)?;
    }
    let interrupts = &platform().interrupts;
    interrupts.save(shut, into)?;
    interrupts.save_pending(into)
}

/// Writes down what the devices on the bus of memory hold for the OS; flash only where
/// `with_flash`.
///
/// # Errors
///
/// [`CutReason::DeviceState`], [`CutReason::NoRoom`].
#[inline(never)]
pub(super) fn write_bus(with_flash: bool, into: &mut StateWriter<'_>) -> Result<(), CutReason> {
    let state = bus::capture(with_flash).map_err(CutReason::DeviceState)?;
    write_bus_state(&state, into).map_err(super::context::no_room)
}

fn write_bus_state(state: &BusState, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let (owner, version) = section::UART;
    for (number, uart) in (1..).zip(&state.uarts) {
        into.section(owner, number, version, uart)?;
    }
    let (owner, version) = section::FW_CFG;
    into.section(owner, 0, version, &state.fw_cfgs[..])?;
    let (owner, version) = section::FLASH;
    into.section(owner, 0, version, &state.modes[..])?;
    let (owner, version) = section::VIRTIO;
    into.section(owner, 0, version, &state.virtio)
}

/// Reads it.
fn read_bus(sections: &mut StateSections<'_>) -> Result<BusState, StateError> {
    let mut state = BusState {
        virtio: take(sections, section::VIRTIO)?,
        fw_cfgs: take_all(sections, section::FW_CFG)?,
        modes: take_all(sections, section::FLASH)?,
        ..BusState::default()
    };
    let (owner, version) = section::UART;
    let mut number = 1;
    while let Some(uart) = sections.take(owner, number) {
        let uart = *uart.read(version)?;
        let no_room = StateError::Malformed(state.uarts.len());
        state.uarts.try_push(uart).map_err(|_| no_room)?;
        number += 1;
    }
    Ok(state)
}

/// As many as a section has.
fn take_all<T: FromBytes + KnownLayout + Immutable + Copy, const N: usize>(
    sections: &mut StateSections<'_>,
    (owner, version): (u32, u16),
) -> Result<ArrayVec<T, N>, StateError> {
    let section = sections.take(owner, 0).ok_or(StateError::Malformed(0))?;
    let all = section.read::<[T]>(version)?;
    all.try_into().map_err(|_| StateError::Malformed(all.len()))
}

impl HartStart {
    fn of(record: &Record, place: usize, hart: &Hart, vector: Option<Resume>) -> Self {
        let entry = record.line(Place::Part(Layout::hart(place))).read_part();
        let is_running = entry.is_some_and(|(_, entry)| entry.bytes != 0);
        let pending = hart.pending_start();
        let (does, resume) = match (is_running, vector, pending) {
            (true, Some(vector), _) => (WAKES, Some(vector)),
            (true, None, _) => (GOES_ON, None),
            (false, _, Some(pending)) => (STARTS, Some(pending)),
            (false, _, None) => (STOPPED, None),
        };
        let resume = resume.unwrap_or(Resume {
            address: 0,
            argument: 0,
        });
        HartStart {
            id: hart.id(),
            does,
            address: resume.address,
            argument: resume.argument,
        }
    }

    /// Whether it was running.
    pub(super) fn goes_on(&self) -> bool {
        self.does == GOES_ON
    }

    /// Whether it had asked for a sleep, and wakes.
    pub(super) fn wakes(&self) -> bool {
        self.does == WAKES
    }

    /// What it is to do, if anything.
    pub(super) fn task(&self) -> Option<Task> {
        let resume = Resume {
            address: self.address,
            argument: self.argument,
        };
        match self.does {
            GOES_ON => Some(Task::Go),
            STARTS => Some(Task::Start(resume)),
            WAKES => Some(Task::Wake(resume)),
            _ => None,
        }
    }
}

/// What all harts share, read and found to fit.
#[derive(Debug)]
pub(super) struct Shared {
    head: Head,
    /// How each hart is to be started, in their order.
    pub(super) starts: &'static [HartStart],
    uart: Option<UartState>,
    bus: BusState,
    generation: Option<generation_id::Bytes>,
    log: Option<ToldLog>,
    report: Option<Report>,
    status: Option<ToldStatus>,
    /// A save was given up for the cut.
    pub(super) is_refused: bool,
    /// What was last sent to the console did not end a line.
    pub(super) is_amid_line: bool,
    /// What that has left sealed in memory.
    pub(super) sealed: Option<SealedMemory>,
    controllers: ControllerState<'static>,
}

impl Shared {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`StateError`].
    pub(super) fn read(pages: &'static [Page], bytes: u64) -> Result<Self, StateError> {
        let mut sections = StateSections::parse(pages, bytes)?;
        let report = Report::read(&mut sections)?;
        let status = ToldStatus::read(&mut sections)?;
        let controllers = platform().interrupts.read(&mut sections)?;
        let bus = read_bus(&mut sections)?;
        Ok(Shared {
            bus,
            head: take(&mut sections, section::HEAD)?,
            starts: match sections.take(section::HARTS.0, 0) {
                Some(starts) => starts.read::<[HartStart]>(section::HARTS.1)?,
                None => &[],
            },
            uart: take(&mut sections, section::UART).ok(),
            generation: take(&mut sections, section::GENERATION).ok(),
            log: take(&mut sections, ToldLog::SECTION).ok(),
            report,
            status,
            is_refused: sections.take(section::REFUSED.0, 0).is_some(),
            is_amid_line: sections.take(section::AMID_LINE.0, 0).is_some(),
            sealed: match sections.take(section::SEALED.0, 0) {
                Some(sealed) => Some(*sealed.read(section::SEALED.1)?),
                None => None,
            },
            controllers,
        })
    }

    /// Whether it is this machine's.
    pub(super) fn fits(&self) -> bool {
        let ids = self.starts.iter().map(|start| start.id);
        self.head.identity == Head::now().identity
            && ids.eq(hart::all().iter().map(Hart::id))
            && bus::fits(&self.bus)
    }

    /// Puts it back, but for the time, what interrupts harts, and flash.
    pub(super) fn restore(&self) {
        let platform = platform();
        platform.interrupts.shared().put_back(&self.controllers);
        if let Some(uart) = &self.uart {
            console::restore(uart);
        }
        if let Err(address) = bus::restore(&self.bus) {
            say!("cut: the device at {address:#x} has not taken back what it held");
        }
        // It is the same execution, and not a copy of it.
        if let Some((id, bytes)) = platform.generation_id.as_ref().zip(self.generation) {
            id.restore(&bytes);
        }
        report::remember_log(self.log);
        report::restore(self.report);
        report::remember_cut_status(self.status);
        sealed::remember(self.sealed);
    }

    /// `time` at the cut.
    pub(super) fn ticks(&self) -> u64 {
        self.head.ticks
    }
}

/// Has the harts interrupted as they were, and puts the clock back, of whose alarm the OS is
/// to hear. Then flash, which the vault's use has left as memory.
///
/// # Errors
///
/// [`StateError`]: the part is not what was [read](Shared::read).
pub(super) fn announce(pages: &[Page], bytes: u64) -> Result<(), StateError> {
    let mut sections = StateSections::parse(pages, bytes)?;
    platform().interrupts.let_out(&mut sections)?;
    // Without one there is no section.
    if let Ok(clock) = take::<RtcState>(&mut sections, section::CLOCK)
        && !platform().time.put_back_clock(&clock)
    {
        say!("cut: half of a time that the OS may be reading from the clock is lost");
    }
    bus::restore_flash(&read_bus(&mut sections)?);
    Ok(())
}

fn take<T: FromBytes + KnownLayout + Immutable + Copy>(
    sections: &mut StateSections<'_>,
    (owner, version): (u32, u16),
) -> Result<T, StateError> {
    let section = sections.take(owner, 0).ok_or(StateError::Malformed(0))?;
    section.read::<T>(version).copied()
}
