//! Go: what all harts share is put back by the one that boots, and each hart's own by
//! itself.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use poorwill_arch::csr;
use poorwill_hart::{Execution, HartContext};
use poorwill_image::{PowerFails, StateSections};
use poorwill_memory::Page;
use poorwill_sleep::cut::{
    self, CutMemory, CutReason, CutReport, GoMachine, Layout, Misfit, NoGo, Proof, Prover,
    WearWords,
};
use poorwill_sleep::{Core, CutWake, Event, Startup, VaultFault, VaultState};
use poorwill_vault::{CutVault, Key};
use zerocopy::IntoBytes;

use super::devices::Devices;
use super::record::{Record, place_of, record};
use super::shared::{self, HartStart, MACHINE, MachineState};
use super::stop::{are_written_back, stop};
use super::{context, key, sealed};
use crate::entry::{self, TrapFrame, stack};
use crate::hart::{self, ThisHart, this_hart};
use crate::kept::{Keep, Store};
use crate::platform::console::{print, say};
use crate::platform::memory_controller::Controller;
use crate::platform::platform;
use crate::platform::power_fail::{self, PowerFail};
use crate::{report, sleeper};

/// The controller of its memory, on a machine that can be cut.
fn controller() -> Option<&'static Controller> {
    let line = platform().power_fail.as_ref();
    line.map(PowerFail::controller)
}

/// The machine that goes on, as the hart sees it that boots.
struct Going {
    record: Record,
    own: ThisHart,
    /// `time` at power-on.
    began: u64,
    /// What was put back.
    restored: Cell<Restored>,
}

/// What was put back.
#[derive(Clone, Copy, Debug, Default)]
struct Restored {
    /// How harts start.
    starts: &'static [HartStart],
    /// How long it took from the power-on, in ticks.
    took: u64,
    /// How long a machine slept that had asked for it, in ticks.
    slept: u64,
    /// A save was given up for the cut.
    is_refused: bool,
    /// A line on the console was not at its end.
    is_amid_line: bool,
}

impl Going {
    fn part(&self, part: usize) -> Result<(&'static [Page], u64), CutReason> {
        self.record.entered(part).ok_or(CutReason::Damaged)
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
    type State = (MachineState<'static>, StateSections<'static>, Option<Core>);

    fn record(&self) -> &impl CutMemory {
        &self.record
    }

    fn has_memory_error(&self) -> bool {
        controller().is_some_and(Controller::has_error)
    }

    fn can_wipe(&self) -> bool {
        controller().is_some_and(Controller::can_wipe)
    }

    fn wipe(&self) {
        if let Some(controller) = controller() {
            // Whatever becomes of the record.
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
        let line = super::line();
        are_written_back(self.own, line.write_back_rest())?;
        Ok(line.controller().wear())
    }

    fn check(&self) -> Result<Self::State, CutReason> {
        let (shared, bytes) = self.part(Layout::SHARED)?;
        let shared = shared::read(shared, bytes)?;
        if shared.sealed.is_some() && !sealed::has_key() {
            return Err(CutReason::Sealed);
        }
        // SAFETY: no hart runs the OS.
        if self.part(Layout::TREE)?.1 != unsafe { shared::loaded_memory(self.own) }.len() as u64 {
            return Err(Misfit::DeviceTree.into());
        }
        let mut sleeper = None;
        for (place, start) in shared.starts.unwrap_or_default().iter().enumerate() {
            let part = Layout::hart(place);
            if start.goes_on() {
                execution_of(&read_part(&self.record, self.own, part)?)
                    .ok_or(Misfit::Hart(start.id()))?;
            } else if start.wakes() {
                let (core, _) = read_sleeper(&self.record, part)?;
                sleeper = Some(core);
            }
        }
        // SAFETY: no hart runs the OS, and devices have just been powered.
        let devices = unsafe { Devices::new(self.record) };
        let (kept, bytes) = self.part(Layout::DEVICES)?;
        let kept = devices.check(kept, bytes)?;
        Ok((shared, kept, sleeper))
    }

    fn wait_for_power(&self) {
        super::wait_for_power();
    }

    fn restore(&self, (shared, kept, sleeper): Self::State) -> Result<(), CutReason> {
        // SAFETY: as in `check`.
        unsafe { Devices::new(self.record) }.put_back(&kept)?;
        // SAFETY: no hart runs the OS.
        let memory = unsafe { shared::loaded_memory(self.own) };
        let tree = self.record.part(Layout::TREE).as_bytes();
        memory.copy_from_slice(&tree[..memory.len()]);
        MACHINE.put_back(Store::Record, &shared);
        let time = &platform().time;
        let took = time.ticks().saturating_sub(self.began);
        // Behind a sleep it has gone on, as behind any other.
        let ticks = sleeper.map_or(shared.ticks(), |core| {
            core.ticks_at(time.now_ns(), |slept_ns| time.ticks_in(slept_ns))
        });
        self.restored.set(Restored {
            starts: shared.starts.unwrap_or_default(),
            took,
            slept: ticks.saturating_sub(shared.ticks()),
            is_refused: shared.refused.is_some(),
            is_amid_line: shared.amid_line.is_some(),
        });
        time.set_ticks(ticks);
        Ok(())
    }
}

// A context is large.
#[inline(never)]
fn read_part(record: &Record, own: ThisHart, part: usize) -> Result<HartContext, CutReason> {
    let (part, bytes) = record.entered(part).ok_or(CutReason::Damaged)?;
    context::read(own, part, bytes)
}

fn restore_banks(record: &Record, own: ThisHart, part: usize) -> Result<(), CutReason> {
    let (part, bytes) = record.entered(part).ok_or(CutReason::Damaged)?;
    Ok(context::restore_banks(own, part, bytes)?)
}

/// The part of a hart that had asked for a sleep.
#[inline(never)]
fn read_sleeper(record: &Record, part: usize) -> Result<(Core, HartContext), CutReason> {
    let (part, bytes) = record.entered(part).ok_or(CutReason::Damaged)?;
    let mut sections = StateSections::parse(part, bytes)?;
    let sleeper = sleeper::read(&mut sections)?;
    match sections.left() {
        [] => Ok(sleeper),
        [section, ..] => Err(Misfit::Unknown(section.owner).into()),
    }
}

/// Where the OS was, and the `mstatus` to go there with.
fn execution_of(context: &HartContext) -> Option<(Execution, u64)> {
    let execution = context.execution?;
    let own = csr::read::<{ csr::MSTATUS }>();
    Some((execution, execution.status_for_return(own).ok()?))
}

/// How many harts are still to be ready, before any goes on.
static NOT_READY: AtomicUsize = AtomicUsize::new(0);

/// Harts that are started wait until all are as they were, and devices interrupt again: one that
/// ran the OS before might interrupt another whose state is still to be put back.
static ARE_HELD: AtomicBool = AtomicBool::new(false);

/// Devices and controllers are to interrupt the hart that wakes, once it is as it was.
static WAKE_IS_SILENT: AtomicBool = AtomicBool::new(false);

/// Goes on with a cut, if there is one: then this does not return.
///
/// # Errors
///
/// Why not: the machine boots cold, or is to be reset.
pub(crate) fn go(own: ThisHart, began: u64) -> Result<core::convert::Infallible, NoGo> {
    let record = record().ok_or(NoGo::Cold(None))?;
    let going = Going {
        record,
        own,
        began,
        restored: Cell::default(),
    };
    let ready = match stack::leaves_nothing() {
        true => stack::apart(|| cut::go(&going)),
        false => cut::go(&going),
    }?;
    let Restored {
        starts,
        took,
        slept,
        is_refused,
        is_amid_line,
    } = going.restored.get();
    let running = starts.iter().filter(|start| start.goes_on());
    let running = running.count();
    NOT_READY.store(running, Ordering::Relaxed);
    ARE_HELD.store(running > 0, Ordering::Release);
    if is_amid_line {
        // What is said here begins a line.
        print!("\n");
    }
    let waking = starts.iter().position(HartStart::wakes);
    match waking {
        Some(place) => wake(&record, Layout::hart(place), &ready.report(), took, slept),
        None => tell(running, &ready.report(), took),
    }
    if running == 0 && waking.is_none() {
        // No hart has anything to put back: one that starts finds what interrupts it.
        announce(record);
    }
    if is_refused {
        say!("sleep refused: {PowerFails}");
    }
    for (hart, start) in hart::all().iter().zip(starts) {
        if let Some(task) = start.task() {
            hart.start(task).expect("every hart waits to be started");
        }
    }
    // Once each has its task: a power that fails again finds them on their way. One that
    // wakes lets it interrupt once it is as it was.
    if waking.is_none() {
        super::status::arm();
    }
    own.wait()
}

/// What is left for a machine that had asked for a sleep, of which that part is the hart's that
/// wakes; the times are in ticks.
#[inline(never)]
fn wake(record: &Record, part: usize, report: &CutReport, took: u64, slept: u64) {
    let (_, context) = read_sleeper(record, part).expect("the part was checked");
    sleeper::will_wake(context, None);
    WAKE_IS_SILENT.store(true, Ordering::Release);
    let time = &platform().time;
    let slept_ms = time.milliseconds_in(slept);
    let event = Event::WokenFromCut(CutWake {
        bytes: report.bytes,
        sleep_us: time.microseconds_in(report.ticks),
        slept_ms,
        us: time.microseconds_in(took),
    });
    say!("{event}");
    // An OS that has moved its tree is not told.
    report::tell(&Startup::Cut { slept_ms });
    report::tell_log();
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
    if NOT_READY.fetch_sub(1, Ordering::AcqRel) == 1 {
        // Where memory is sealed, no device reaches it, and this hart alone was running.
        sealed::open();
        // What devices interrupt is as it was.
        // SAFETY: as above.
        unsafe { stack::on(stack.end as usize, || announce(record)) };
        ARE_HELD.store(false, Ordering::Release);
    }
    wait_for_release(own);
    if power_fail::is_failing() {
        // The interrupt that is to stop this hart was taken on the way.
        stop(Some(&frame));
    }
    // SAFETY: the frame is the OS's, as it was, and this hart's call chain ends here.
    unsafe { entry::return_to(&frame, own.stack_top()) }
}

/// Waits until every hart that goes on with a cut is as it was, if there are such.
pub(crate) fn wait_for_release(own: ThisHart) {
    while ARE_HELD.load(Ordering::Acquire) {
        own.serve_fence();
    }
}

/// Has devices and controllers interrupt the calling hart, which wakes from a cut that its OS
/// asked for, and is as it was.
pub(crate) fn woke(own: ThisHart) {
    if WAKE_IS_SILENT.swap(false, Ordering::Acquire) {
        let record = record().expect("a cut was found");
        let stack = record.stack(place_of(&own));
        // SAFETY: the hart's own, and nothing of it is in use.
        unsafe { stack::on(stack.end as usize, || announce(record)) };
    }
}

fn announce(record: Record) {
    // SAFETY: no hart has gone on yet.
    let devices = unsafe { Devices::new(record) };
    let entered = |part| record.entered(part).expect("the part was checked");
    let (kept, bytes) = entered(Layout::DEVICES);
    devices.announce(kept, bytes);
    let (shared, bytes) = entered(Layout::SHARED);
    let shared = shared::read(shared, bytes).expect("the part was checked");
    MACHINE.let_out(Store::Record, &shared);
}

fn restore(record: &Record, own: ThisHart, place: usize) -> TrapFrame {
    let part = Layout::hart(place);
    let context = read_part(record, own, part).expect("the part was checked");
    context.restore(&own.access());
    restore_banks(record, own, part).expect("the part was checked");
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
