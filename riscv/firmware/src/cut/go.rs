//! Go: the boot hart restores the state that all harts share, and each hart its own.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use poorwill_arch::csr;
use poorwill_devicetree::MAX_HARTS;
use poorwill_hart::{Execution, HartContext};
use poorwill_image::{PowerFails, StateSections};
use poorwill_sleep::cut::{
    self, CutMemory, CutReason, CutReport, GoMachine, Layout, Misfit, NoGo, Proof, Prover,
    WearWords,
};
use poorwill_sleep::{Core, CutWake, Event, Startup, VaultFault, VaultState};
use poorwill_vault::{CutVault, Key};
use zerocopy::IntoBytes;

use super::devices::Devices;
use super::line::{self, line};
use super::record::{Part, Record, record};
use super::shared::{self, LONE};
use super::status::{self, Armed};
use super::stop::{are_written_back, stop};
use super::{key, sealed};
use crate::domain::{LiveDomain, report};
use crate::entry::{self, TrapFrame, stack};
use crate::hart::{self, ThisHart, place_of, this_hart, waking};
use crate::platform::bus::WakingDevices;
use crate::platform::console::{print, say};
use crate::platform::memory_controller::Controller;
use crate::platform::platform;
use crate::platform::power_fail::{self, PowerFail};
use poorwill_state::part;
use poorwill_state::{HartStart, Keep, Store};

/// The number of harts that are not restored yet, and one more until devices and controllers may
/// interrupt; 0 once the harts are released.
static UNREADY: AtomicUsize = AtomicUsize::new(0);

/// The memory controller, on a machine that can be cut.
fn controller() -> Option<&'static Controller> {
    power_fail::line().map(PowerFail::controller)
}

/// A resume in progress, on the boot hart.
struct Going {
    record: Record,
    own: ThisHart,
    /// `time` at power-on.
    began: u64,
    restored: Cell<Restored>,
}

/// Facts about the restored machine, for the steps after the restore.
#[derive(Debug, Default)]
struct Restored {
    /// How harts start.
    starts: ArrayVec<HartStart, MAX_HARTS>,
    /// Ticks from the power-on to the end of the restore.
    took: u64,
    /// Ticks that the machine slept, if its OS had asked for the cut; else 0.
    slept: u64,
    /// The power failure ended a save, so the OS's call returns an error.
    is_refused: bool,
    /// The console's last line was not complete at the cut.
    is_amid_line: bool,
}

impl Going {
    /// Checks all parts except that of the PCI devices. Returns the hart that asked for the sleep,
    /// if one did.
    fn check_shared(&self, part: &Part) -> Result<Option<Core>, CutReason> {
        let shared = shared::read(part.pages(), part.bytes()?)?;
        if shared.machine.sealed.is_some() && !sealed::has_key() {
            return Err(CutReason::Sealed);
        }
        // SAFETY: no hart runs the OS.
        let memory = unsafe { shared::loaded_memory(self.own) };
        if self.record.part(Layout::TREE).bytes()? != memory.len() as u64 {
            return Err(Misfit::DeviceTree.into());
        }
        let mut sleeper = None;
        for (place, start) in shared.machine.starts.unwrap_or_default().iter().enumerate() {
            let part = self.record.part(Layout::hart(place));
            if start.goes_on() {
                execution_of(&read_part(self.own, &part)?).ok_or(Misfit::Hart(start.id()))?;
            } else if start.wakes() {
                sleeper = Some(read_sleeper(self.own.domain(), &part)?.0);
            }
        }
        Ok(sleeper)
    }
}

impl Prover for Going {
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R {
        key::with_vault(job)
    }

    fn new_key(&self) -> Key {
        key::new()
    }

    fn keep(&self, proof: Result<Proof, VaultFault>) {
        key::keep(proof);
    }
}

impl GoMachine for Going {
    /// The checked parts of the shared state and of the PCI devices, and the hart that asked for
    /// the sleep.
    type State = (Part, Part, Option<Core>);

    fn record(&self) -> &impl CutMemory {
        &self.record
    }

    fn is_last_record(&self) -> bool {
        platform().had_cut_record(self.record.base())
    }

    fn has_memory_error(&self) -> bool {
        controller().is_some_and(Controller::has_error)
    }

    fn can_wipe(&self) -> bool {
        controller().is_some_and(Controller::can_wipe)
    }

    fn wipe(&self) {
        if let Some(controller) = controller() {
            // The error is reported before the wipe, which may destroy the record.
            say!("cut: {}; it is wiped", CutReason::MemoryError);
            controller.wipe();
        }
    }

    fn wear_words(&self) -> usize {
        controller().map_or(0, Controller::wear_words)
    }

    fn put_back_wear(&self, words: &WearWords) {
        if let Some(controller) = controller() {
            controller.put_back_wear(words);
        }
    }

    fn wear(&self) -> Result<WearWords, CutReason> {
        let line = line();
        are_written_back(self.own, line.caches().write_back_rest())?;
        Ok(line.controller().wear())
    }

    fn check(&self) -> Result<Self::State, CutReason> {
        let shared = self.record.part(Layout::SHARED);
        let sleeper = self.check_shared(&shared)?;
        // SAFETY: no hart runs the OS, and devices have just been powered.
        let pci = unsafe { Devices::new(self.record) };
        let devices = self.record.part(Layout::DEVICES);
        pci.check(devices.pages(), devices.bytes()?)?;
        Ok((shared, devices, sleeper))
    }

    fn wait_for_power(&self) {
        line::wait_for_power();
    }

    fn restore(&self, (shared, devices, sleeper): Self::State) -> Result<(), CutReason> {
        // SAFETY: as in `check`.
        let pci = unsafe { Devices::new(self.record) };
        pci.put_back(devices.pages(), devices.bytes()?)?;
        let shared = shared::read(shared.pages(), shared.bytes()?)?;
        // SAFETY: no hart runs the OS.
        let memory = unsafe { shared::loaded_memory(self.own) };
        let tree = self.record.part(Layout::TREE);
        memory.copy_from_slice(&tree.pages().as_bytes()[..memory.len()]);
        LONE.put_back(Store::Record, &shared);
        let time = &platform().time;
        let took = time.ticks().saturating_sub(self.began);
        // Time advances across a sleep.
        let ticks = sleeper.map_or(shared.ticks(), |core| {
            core.ticks_at(time.now_ns(), |slept_ns| time.ticks_in(slept_ns))
        });
        let starts = shared.machine.starts.unwrap_or_default();
        self.restored.set(Restored {
            starts: starts.iter().copied().collect(),
            took,
            slept: ticks.saturating_sub(shared.ticks()),
            is_refused: shared.machine.refused.is_some(),
            is_amid_line: shared.machine.amid_line.is_some(),
        });
        time.set_ticks(ticks);
        Ok(())
    }
}

// Not inlined: a context is large.
#[inline(never)]
fn read_part(own: ThisHart, part: &Part) -> Result<HartContext, CutReason> {
    part::read(own.id(), &own.access(), part.pages(), part.bytes()?)
}

/// Reads the part of the hart whose OS asked for the sleep.
#[inline(never)]
fn read_sleeper(domain: &LiveDomain, part: &Part) -> Result<(Core, HartContext), CutReason> {
    let mut sections = StateSections::parse(part.pages(), part.bytes()?)?;
    let sleeper = waking::read(domain, &mut sections)?;
    match sections.left() {
        [] => Ok(sleeper),
        [section, ..] => Err(Misfit::Unknown(section.owner).into()),
    }
}

/// The point at which the OS was stopped, and `mstatus` for the return to it.
fn execution_of(context: &HartContext) -> Option<(Execution, u64)> {
    let execution = context.execution?;
    let own = csr::read::<{ csr::MSTATUS }>();
    Some((execution, execution.status_for_return(own).ok()?))
}

/// Resumes a cut, if there is one. Then this does not return.
///
/// # Errors
///
/// [`NoGo`]: the machine boots cold, or is to be reset.
pub(crate) fn go(own: ThisHart, began: u64) -> Result<core::convert::Infallible, NoGo> {
    let Some(record) = record() else {
        forget_all();
        return Err(NoGo::Cold(None));
    };
    let going = Going {
        record,
        own,
        began,
        restored: Cell::default(),
    };
    let ready = match stack::leaves_nothing() {
        true => stack::apart(|| cut::go(&going)),
        false => cut::go(&going),
    };
    let ready = ready.inspect_err(|_| platform().leave_cut_record(record.base()))?;
    let armed = release(record, &going.restored.take(), &ready.report());
    // Each hart has its task by now, so another power failure finds all harts on their way. A hart
    // that wakes arms the line once its state is restored.
    if let Some(armed) = armed {
        status::arm(armed);
    }
    own.wait()
}

/// Lets no cut of an earlier start resume, for a start that makes none.
pub(crate) fn forget_all() {
    platform().leave_cut_record(0);
}

/// Reports the cut on the console, and gives each hart its task. Returns the line to arm, unless a hart
/// wakes.
fn release(record: Record, restored: &Restored, report: &CutReport) -> Option<Armed> {
    let Restored { starts, took, .. } = restored;
    let running = starts.iter().filter(|start| start.goes_on()).count();
    let waking = starts.iter().position(HartStart::wakes);
    if restored.is_amid_line {
        // This ends the incomplete line.
        print!("\n");
    }
    let armed = match waking {
        Some(place) => {
            wake(record, place, report, *took, restored.slept);
            None
        }
        None => {
            tell(running, report, *took);
            status::decide_again(report.after)
        }
    };
    match running + usize::from(waking.is_some()) {
        // No hart restores a state, so no hart would announce the interrupts later. A hart that
        // starts finds them pending.
        0 => announce(record),
        unready => UNREADY.store(unready + 1, Ordering::Release),
    }
    if restored.is_refused {
        say!("sleep refused: {PowerFails}");
    }
    this_hart().domain().run();
    for (hart, start) in hart::all().iter().zip(starts) {
        if let Some(task) = start.task() {
            hart.start(task).expect("every hart waits for its start");
        }
    }
    armed
}

/// Prepares the wake of the hart with index `place`, whose OS asked for a sleep. The times are in
/// ticks.
#[inline(never)]
fn wake(record: Record, place: usize, report: &CutReport, took: u64, slept: u64) {
    let domain = this_hart().domain();
    let sleeper = read_sleeper(domain, &record.part(Layout::hart(place)));
    let (_, context) = sleeper.expect("the part was checked");
    // Go lets all devices out.
    waking::will_wake(domain, (context, None, WakingDevices::default()));
    let time = &platform().time;
    let slept_ms = time.milliseconds_in(slept);
    let event = Event::WokenFromCut(CutWake {
        bytes: report.bytes,
        sleep_us: time.microseconds_in(report.ticks),
        slept_ms,
        us: time.microseconds_in(took),
    });
    say!("{event}");
    // An OS that has moved its device tree gets no report.
    report::tell(domain, &Startup::Cut { slept_ms });
    report::tell_log(domain);
}

/// Reports the times of Stop and Go on the console.
fn tell(harts: usize, report: &CutReport, took: u64) {
    let us = |ticks| platform().time.microseconds_in(ticks);
    let CutReport { bytes, ticks, .. } = *report;
    let left = line().hold_up_ticks().saturating_sub(ticks);
    say!(
        "cut harts={harts} bytes={bytes} us={} left_us={}",
        us(ticks),
        us(left)
    );
    say!("go us={}", us(took));
}

/// Restores the OS's state on the calling hart, and continues the OS where it was stopped.
pub(crate) fn go_on() -> ! {
    let own = this_hart();
    let record = record().expect("a resumed cut has a record");
    let frame = record.on_stack(|| restore(record, own));
    is_ready(record);
    wait_for_release(own);
    if power_fail::noticed() {
        // This hart took the interrupt for the next Stop during the restore.
        stop(Some(&frame));
    }
    // SAFETY: the frame is the OS's restored state, and this hart's call chain ends here.
    unsafe { entry::return_to(&frame, own.stack_top()) }
}

/// Reports the calling hart as restored after its wake from a cut. Does nothing after a wake from
/// an image.
pub(crate) fn woke() {
    if UNREADY.load(Ordering::Acquire) > 0 {
        is_ready(record().expect("a resumed cut has a record"));
    }
}

/// Marks the calling hart as restored. The last hart to do so opens sealed memory, raises the
/// interrupts of devices and controllers, and releases all harts.
fn is_ready(record: Record) {
    if UNREADY.fetch_sub(1, Ordering::AcqRel) == 2 {
        // No device reaches sealed memory now, and only the hart that asked for the save was
        // running.
        sealed::open();
        record.on_stack(|| announce(record));
        UNREADY.store(0, Ordering::Release);
    }
}

/// Waits until every stopped hart is restored. A hart that ran the OS earlier might interrupt one
/// whose state is not restored yet.
pub(crate) fn wait_for_release(own: ThisHart) {
    while UNREADY.load(Ordering::Acquire) > 0 {
        own.serve_fence();
    }
}

fn announce(record: Record) {
    // SAFETY: no hart runs the OS yet.
    let devices = unsafe { Devices::new(record) };
    let part = record.part(Layout::DEVICES);
    devices.announce(part.pages(), part.bytes().expect("the part was checked"));
    drop(part);
    let_out(&record.part(Layout::SHARED));
}

// Not inlined: the state is large, and must not share a frame with that of the devices.
#[inline(never)]
fn let_out(part: &Part) {
    let bytes = part.bytes().expect("the part was checked");
    let shared = shared::read(part.pages(), bytes).expect("the part was checked");
    LONE.let_out(Store::Record, &shared);
}

fn restore(record: Record, own: ThisHart) -> TrapFrame {
    let part = record.part(Layout::hart(place_of(&own)));
    // Not moved, since a context is large.
    let context = read_part(own, &part);
    let context = context.as_ref().expect("the part was checked");
    context.restore(&own.access());
    let bytes = part.bytes().expect("the part was checked");
    part::restore_banks(&own.access(), part.pages(), bytes).expect("the part was checked");
    let (execution, status) = execution_of(context).expect("the part was checked");
    // SAFETY: these are the OS's values, and machine mode uses neither register.
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
