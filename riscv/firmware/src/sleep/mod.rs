//! Sleeping and waking on this hardware. What is decided, and in which order, is
//! the `sleep` crate's; here are the machine that it works on, and what a sleep or a
//! wake ends with.

mod device;
mod machine;
mod retain;
mod state;

use poorwill_arch::interruptible;
use poorwill_hart::{Resume, Task};
use poorwill_image::{NotOpened, PowerFails, SealedMemory, SealingKey, Workspace, open_in_place};
use poorwill_medium::nvme::QueueMemory;
use poorwill_memory::{OsMemory, Page};
use poorwill_sleep::cut::CutReason;
pub(crate) use poorwill_sleep::{ColdBoot, NoSleep};
use poorwill_sleep::{Quiesced, Slept, WakeVector, Woke, Work};
use spin::{Mutex, MutexGuard, Once};

use crate::cut;
use crate::hart::{self, OthersStopped};
use crate::platform::{platform, power};
use crate::report;
use crate::workers::StoppedHarts;
use machine::Firmware;

/// Puts the machine to sleep. Returns when it is awake again without its power
/// having been off.
///
/// # Errors
///
/// [`NoSleep`]: it was to be saved at once, and could not.
pub(crate) fn sleep(resume: Resume, stopped: &OthersStopped) -> Result<(), NoSleep> {
    let Resume { address, argument } = resume;
    let mut memory = os_memory(stopped);
    let quiesced = Quiesced::new(&mut memory, WakeVector { address, argument });
    // SAFETY: a sleep keeps nothing from the OS's timer.
    match unsafe {
        interruptible(0, || {
            poorwill_sleep::sleep(&Firmware, quiesced, &mut work())
        })
    } {
        Slept::Awake => {
            report::tell_log();
            Ok(())
        }
        Slept::Refused(error) => Err(error),
        Slept::PowerFails { has_slept, sealed } => {
            cut::leave_sealed(sealed);
            match has_slept {
                true => Ok(()),
                false => Err(NoSleep::PowerFails(PowerFails)),
            }
        }
        Slept::Asleep(committed) => {
            #[cfg(feature = "stack-marks")]
            say_stacks();
            cut::power_off(|| power::power_off_asleep(committed))
        }
        Slept::Cut(committed) => power::power_off_cut(committed),
        Slept::InDoubt(_) => cut::power_off(|| power::power_off()),
    }
}

/// Opens where it lies what a save has left sealed in memory, as the power failed; nothing
/// else has used the memory that a sleep works in since.
///
/// # Errors
///
/// [`NotOpened`].
pub(crate) fn open_sealed(
    sealed: SealedMemory,
    key: &SealingKey,
    stopped: &OthersStopped,
) -> Result<(), NotOpened> {
    let mut memory = os_memory(stopped);
    let mut work = work();
    let workspace = Workspace::new(work.workspace, memory.pages());
    let mut workspace = workspace.expect("the save had room");
    // SAFETY: as for a sleep.
    unsafe {
        interruptible(0, || {
            open_in_place(sealed, key, &mut memory, &mut workspace, &StoppedHarts)
        })
    }
}

/// Wakes the machine if it sleeps. Returns the reason if it does not; `began` is
/// `time` at power-on, `no_cut` why a cut was given up.
pub(crate) fn wake(began: u64, stopped: &OthersStopped, no_cut: Option<CutReason>) -> ColdBoot {
    let woke = {
        let mut memory = os_memory(stopped);
        // SAFETY: a wake keeps nothing from the OS's timer either.
        unsafe {
            interruptible(0, || {
                poorwill_sleep::wake(&Firmware, &mut memory, &mut work(), began)
            })
        }
    };
    let core = match woke {
        Woke::Awake(core) => core,
        Woke::Cold(reason) => return reason,
        Woke::Reset(_) => power::fatal(),
        Woke::Cleared => {
            // The next start is the one that boots cold.
            if let Some(reason) = no_cut {
                cut::note(reason);
            }
            power::fatal()
        }
    };
    #[cfg(feature = "irqs-off")]
    power::say_irqs_off();
    report::tell_log();
    let time = &platform().time;
    time.set_ticks(core.ticks_at(time.now_ns(), |slept_ns| time.ticks_in(slept_ns)));
    let hart = hart::find(core.hart()).expect("the state was checked to name a hart");
    let WakeVector { address, argument } = core.vector();
    hart.start(Task::Wake(Resume { address, argument }))
        .expect("every hart waits to be started");
    hart::this_hart().wait()
}

/// The OS memory of this machine, to read and to write, for the hart that saves or
/// wakes it.
fn os_memory(_: &OthersStopped) -> OsMemory {
    // SAFETY: the map has the machine's memory but for the firmware's own, at its
    // physical addresses, as machine mode has no translation. No other hart runs the
    // OS, says the proof; the one that calls makes a value for the length of a sleep
    // or a wake, of which there is one at a time, and keeps no reference into OS
    // memory beside it.
    unsafe { OsMemory::new(platform().memory.clone()) }
}

/// The memory that a sleep or a wake works in; there is never more than one.
static WORK: Once<Mutex<Work<'static>>> = Once::new();

/// The queues of the controller that runs; there is one at a time.
static QUEUES: Once<Mutex<&'static mut QueueMemory>> = Once::new();

fn work() -> MutexGuard<'static, Work<'static>> {
    WORK.get().expect("memory is taken at the start").lock()
}

fn queues() -> MutexGuard<'static, &'static mut QueueMemory> {
    QUEUES.get().expect("memory is taken at the start").lock()
}

/// Pages that sleeping works in, on a machine with `os_pages` pages of OS memory.
pub(crate) const fn pages_needed(os_pages: u64) -> u64 {
    let pages = (size_of::<QueueMemory>() / size_of::<Page>()) as u64;
    pages + Work::pages_needed(os_pages)
}

/// Gives sleeping its memory, once: at least [`pages_needed`] of it. What is in it
/// does not matter.
pub(crate) fn take_memory(pages: &'static mut [Page]) {
    let (queues, rest) = QueueMemory::take(pages).expect("room for a controller's queues");
    let work = Work::take(rest).expect("room for two more pages");
    QUEUES.call_once(|| Mutex::new(queues));
    WORK.call_once(|| Mutex::new(work));
}

#[cfg(feature = "stack-marks")]
fn say_stacks() {
    let tops = hart::all().iter().map(crate::hart::Hart::stack_top);
    let (deep, small) = crate::entry::stack::most_used(tops);
    crate::platform::console::say!("stacks deep_bytes={deep} hart_bytes={small}");
}
