//! Go: what all harts share is put back by the one that boots, and each hart's own by
//! itself.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use poorwill_arch::csr;
use poorwill_devicetree::MAX_HARTS;
use poorwill_drivers::ControllerState;
use poorwill_drivers::uart::UartState;
use poorwill_hart::{Execution, HartContext, Resume, Task};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_log::ToldLog;
use poorwill_memory::{MachineIdentity, Page};
use poorwill_sleep::Report;
use poorwill_sleep::cut::{
    self, CutMemory, CutReason, CutReport, GoMachine, Layout, Line, PartEntry, Place,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::context;
use super::record::{Record, place_of, record};
use crate::entry::{self, TrapFrame, stack};
use crate::hart::{self, Hart, ThisHart, this_hart};
use crate::platform::console::{self, say};
use crate::platform::{domain, generation_id, platform};
use crate::report;

/// What a hart does after a power-on.
const STOPPED: u64 = 0;
const GOES_ON: u64 = 1;
const STARTS: u64 = 2;

/// How a hart is to be started.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct HartStart {
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
    pub(super) const UART: (u32, u16) = (u32::from_le_bytes(*b"UART"), 1);
}

/// Writes down what all harts share, while none runs the OS.
///
/// # Errors
///
/// [`StateError::NoRoom`].
pub(super) fn write_shared(record: &Record, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let mut write = |(owner, version), payload: &[u8]| into.section(owner, 0, version, payload);
    write(section::HEAD, Head::now().as_bytes())?;
    let harts = hart::all().iter().enumerate();
    let starts: ArrayVec<HartStart, MAX_HARTS> = harts
        .map(|(place, hart)| HartStart::of(record, place, hart))
        .collect();
    write(section::HARTS, starts.as_bytes())?;
    if let Some(uart) = console::capture() {
        write(section::UART, uart.as_bytes())?;
    }
    if let Some(id) = &platform().generation_id {
        write(section::GENERATION, &id.bytes())?;
    }
    if let Some(log) = report::log() {
        write(ToldLog::SECTION, log.as_bytes())?;
    }
    if let Some(report) = report::current() {
        report.write(into)?;
    }
    platform().interrupts.save(into)
}

impl HartStart {
    fn of(record: &Record, place: usize, hart: &Hart) -> Self {
        let entry = record.line(Place::Part(Layout::hart(place))).read_part();
        let is_running = entry.is_some_and(|(_, entry)| entry.bytes != 0);
        let pending = hart.pending_start();
        let resume = pending.unwrap_or(Resume {
            address: 0,
            argument: 0,
        });
        HartStart {
            id: hart.id(),
            does: match (is_running, pending) {
                (true, _) => GOES_ON,
                (false, Some(_)) => STARTS,
                (false, None) => STOPPED,
            },
            address: resume.address,
            argument: resume.argument,
        }
    }

    fn task(&self) -> Option<Task> {
        match self.does {
            GOES_ON => Some(Task::Go),
            STARTS => Some(Task::Start(Resume {
                address: self.address,
                argument: self.argument,
            })),
            _ => None,
        }
    }
}

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

/// What all harts share, read and found to fit.
#[derive(Debug)]
struct Shared {
    head: Head,
    starts: &'static [HartStart],
    uart: Option<UartState>,
    generation: Option<generation_id::Bytes>,
    log: Option<ToldLog>,
    report: Option<Report>,
    controllers: ControllerState<'static>,
}

impl Shared {
    fn read(pages: &'static [Page], bytes: u64) -> Result<Self, StateError> {
        let mut sections = StateSections::parse(pages, bytes)?;
        let report = Report::read(&mut sections)?;
        let controllers = platform().interrupts.read(&mut sections)?;
        Ok(Shared {
            head: take(&mut sections, section::HEAD)?,
            starts: match sections.take(section::HARTS.0, 0) {
                Some(starts) => starts.read::<[HartStart]>(section::HARTS.1)?,
                None => &[],
            },
            uart: take(&mut sections, section::UART).ok(),
            generation: take(&mut sections, section::GENERATION).ok(),
            log: take(&mut sections, ToldLog::SECTION).ok(),
            report,
            controllers,
        })
    }

    /// Whether it is this machine's.
    fn fits(&self) -> bool {
        let ids = self.starts.iter().map(|start| start.id);
        self.head.identity == Head::now().identity && ids.eq(hart::all().iter().map(Hart::id))
    }
}

fn take<T: FromBytes + KnownLayout + Immutable + Copy>(
    sections: &mut StateSections<'_>,
    (owner, version): (u32, u16),
) -> Result<T, StateError> {
    let section = sections.take(owner, 0).ok_or(StateError::Malformed(0))?;
    section.read::<T>(version).copied()
}

/// The machine that goes on, as the hart sees it that boots.
struct Going {
    record: Record,
    own: ThisHart,
    /// `time` at power-on.
    began: u64,
    /// What was put back: how harts start, and how long that took, in ticks.
    restored: Cell<(&'static [HartStart], u64)>,
}

impl CutMemory for Going {
    fn layout(&self) -> Layout {
        self.record.layout()
    }

    fn line(&self, place: Place) -> Line {
        self.record.line(place)
    }

    fn store(&self, place: Place, line: &Line) {
        self.record.store(place, line);
    }

    fn write_back(&self, place: Place) {
        self.record.write_back(place);
    }

    fn digest(&self, part: usize, bytes: u64) -> Option<u64> {
        self.record.digest(part, bytes)
    }
}

impl Going {
    fn bytes(&self, part: usize) -> Result<u64, CutReason> {
        let entry = self.line(Place::Part(part)).read_part();
        entry
            .map(|(_, entry)| entry.bytes)
            .ok_or(CutReason::Damaged)
    }
}

impl GoMachine for Going {
    type State = Shared;

    fn check(&self) -> Result<Shared, CutReason> {
        let shared = self.record.part(Layout::SHARED);
        let shared = Shared::read(shared, self.bytes(Layout::SHARED)?);
        let shared = shared.map_err(|_| CutReason::Misfit)?;
        if !shared.fits() {
            return Err(CutReason::Misfit);
        }
        // SAFETY: no hart runs the OS.
        if self.bytes(Layout::TREE)? != unsafe { loaded_memory(self.own) }.len() as u64 {
            return Err(CutReason::Misfit);
        }
        for (place, start) in shared.starts.iter().enumerate() {
            if start.does == GOES_ON {
                let part = Layout::hart(place);
                execution_of(&read_part(&self.record, self.own, part)?)?;
            }
        }
        Ok(shared)
    }

    fn wait_for_power(&self) {
        while super::line().is_raised() {
            core::hint::spin_loop();
        }
    }

    fn restore(&self, shared: Shared) {
        // SAFETY: no hart runs the OS.
        let memory = unsafe { loaded_memory(self.own) };
        let tree = self.record.part(Layout::TREE).as_bytes();
        memory.copy_from_slice(&tree[..memory.len()]);
        let platform = platform();
        platform.interrupts.shared().restore(&shared.controllers);
        if let Some(uart) = &shared.uart {
            console::restore(uart);
        }
        // It is the same execution, and not a copy of it.
        if let Some((id, bytes)) = platform.generation_id.as_ref().zip(shared.generation) {
            id.restore(&bytes);
        }
        report::remember_log(shared.log);
        report::restore(shared.report);
        let time = &platform.time;
        let took = time.ticks().saturating_sub(self.began);
        self.restored.set((shared.starts, took));
        time.set_ticks(shared.head.ticks);
    }
}

// A context is large.
#[inline(never)]
fn read_part(record: &Record, own: ThisHart, part: usize) -> Result<HartContext, CutReason> {
    let entry = record.line(Place::Part(part)).read_part();
    let (_, PartEntry { bytes, .. }) = entry.ok_or(CutReason::Damaged)?;
    context::read(own, record.part(part), bytes)
}

/// Where the OS was, and the `mstatus` to go there with.
fn execution_of(context: &HartContext) -> Result<(Execution, u64), CutReason> {
    let execution = context.execution.ok_or(CutReason::Misfit)?;
    let own = csr::read::<{ csr::MSTATUS }>();
    let status = execution.status_for_return(own);
    Ok((execution, status.map_err(|_| CutReason::Misfit)?))
}

/// How many harts are still to be ready, before any goes on.
static NOT_READY: AtomicUsize = AtomicUsize::new(0);

/// Goes on with a cut, if there is one: then this does not return.
///
/// # Errors
///
/// Why the machine boots cold; `None` where there is no cut.
pub(crate) fn go(
    own: ThisHart,
    began: u64,
) -> Result<core::convert::Infallible, Option<CutReason>> {
    let record = record().ok_or(None)?;
    let going = Going {
        record,
        own,
        began,
        restored: Cell::new((&[], 0)),
    };
    let ready = cut::go(&going)?;
    let (starts, took) = going.restored.get();
    let running = starts.iter().filter(|start| start.does == GOES_ON);
    let running = running.count();
    NOT_READY.store(running, Ordering::Release);
    tell(running, &ready.report(), took);
    for (hart, start) in hart::all().iter().zip(starts) {
        if let Some(task) = start.task() {
            hart.start(task).expect("every hart waits to be started");
        }
    }
    // Once each has its task: a power that fails again finds them on their way.
    super::arm();
    own.wait()
}

/// Says how the cut went, and how long it took to go on.
fn tell(harts: usize, report: &CutReport, took: u64) {
    let us = |ticks| platform().time.microseconds_in(ticks);
    let CutReport { bytes, ticks, .. } = *report;
    let left = super::line().hold_up_ticks().saturating_sub(ticks);
    say!(
        "cut harts={harts} bytes={bytes} us={} left_us={}",
        us(ticks),
        us(left)
    );
    say!("go us={}", us(took));
}

/// Puts back what the calling hart holds for the OS, and goes on where that was.
pub(crate) fn go_on() -> ! {
    let own = this_hart();
    let place = place_of(&own);
    let record = record().expect("a cut was found");
    let stack = record.stack(place);
    // SAFETY: the hart's own, and nothing of it is in use.
    let frame = unsafe { stack::on(stack.end as usize, || restore(&record, own, place)) };
    NOT_READY.fetch_sub(1, Ordering::AcqRel);
    while NOT_READY.load(Ordering::Acquire) != 0 {
        own.serve_fence();
    }
    // SAFETY: the frame is the OS's, as it was, and this hart's call chain ends here.
    unsafe { entry::return_to(&frame, own.stack_top()) }
}

fn restore(record: &Record, own: ThisHart, place: usize) -> TrapFrame {
    let context = read_part(record, own, Layout::hart(place));
    let context = context.expect("the part was checked");
    context.restore(&own.access());
    let (execution, status) = execution_of(&context).expect("the part was checked");
    // SAFETY: the OS's own; machine mode uses neither.
    unsafe {
        csr::write::<{ csr::SATP }>(execution.address_space);
        csr::write::<{ csr::MCYCLE }>(execution.cycles);
        csr::write::<{ csr::MINSTRET }>(execution.instructions);
    }
    TrapFrame {
        x: execution.x.map(|register| register as usize),
        mepc: execution.pc as usize,
        mstatus: status as usize,
    }
}
