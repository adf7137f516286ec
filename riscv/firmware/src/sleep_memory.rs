//! The memory that sleeping works in, and the OS's as it is saved, loaded and opened.

use poorwill_arch::interruptible;
use poorwill_image::{NotOpened, SealedMemory, SealingKey, Workspace, open_in_place};
use poorwill_medium::nvme::QueueMemory;
use poorwill_memory::{OsMemory, Page};
use poorwill_sleep::Work;
use spin::{Mutex, MutexGuard, Once};

use crate::hart::OthersStopped;
use crate::platform::platform;
use crate::workers::StoppedHarts;

/// The OS memory of this machine, to read and to write, for the hart that saves or
/// wakes it.
pub(crate) fn os_memory(_: &OthersStopped) -> OsMemory {
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

/// The memory that a sleep, a wake or an opening works in.
pub(crate) fn work() -> MutexGuard<'static, Work<'static>> {
    WORK.get().expect("memory is taken at the start").lock()
}

/// The queues of the controller that runs.
pub(crate) fn queues() -> MutexGuard<'static, &'static mut QueueMemory> {
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
