//! The work memory of sleeps and wakes, and access to the OS's memory.

use arrayvec::ArrayVec;
use poorwill_arch::interruptible;
use poorwill_devicetree::MAX_DOMAINS;
use poorwill_image::{NotOpened, SealedMemory, SealingKey, Workspace, open_in_place};
use poorwill_medium::nvme::QueueMemory;
use poorwill_memory::{OsMemory, Page, PhysRange};
use poorwill_sleep::Work;
use spin::{Mutex, MutexGuard, Once};

use crate::hart::domain_state::{DomainStopped, NoneStarted};
use crate::hart::workers::StoppedHarts;
use crate::platform::platform;

/// Access to a stopped domain's memory, for the hart that saves or wakes it.
pub(crate) fn os_memory(stopped: &DomainStopped<'_>) -> OsMemory {
    // SAFETY: the map holds the domain's memory without the firmware's, at physical addresses;
    // machine mode has no translation. No hart runs the domain's OS, as the proof shows. There is
    // only one sleep or wake at a time; the calling hart makes one value for it, and keeps no other
    // reference into OS memory.
    unsafe { OsMemory::new(stopped.domain().memory.clone()) }
}

/// Access to all domains' memory, for the hart that starts the machine.
pub(crate) fn all_memory(_: &NoneStarted) -> OsMemory {
    // SAFETY: as above, of all domains.
    unsafe { OsMemory::new(platform().memory.clone()) }
}

/// The memory of a sleep or a wake; there is only one at a time.
struct Lent {
    range: PhysRange,
    work: Mutex<Work<'static>>,
    /// The queues of the running controller.
    queues: Mutex<&'static mut QueueMemory>,
    /// Not on the deep stack, which a save needs.
    memories: Mutex<Memories>,
}

/// Access to the memory of each domain that sleeps or wakes.
pub(crate) type Memories = ArrayVec<OsMemory, MAX_DOMAINS>;

/// The memories of a sleep or a wake, which fills them.
pub(crate) fn memories() -> MutexGuard<'static, Memories> {
    lent().memories.lock()
}

static LENT: Once<Lent> = Once::new();

fn lent() -> &'static Lent {
    LENT.get().expect("the start sets the work memory")
}

/// Addresses of the work memory, which a disk reads and writes.
pub(crate) fn range() -> PhysRange {
    lent().range
}

/// The work memory of a sleep, a wake or a decryption in place.
pub(crate) fn work() -> MutexGuard<'static, Work<'static>> {
    lent().work.lock()
}

pub(crate) fn queues() -> MutexGuard<'static, &'static mut QueueMemory> {
    lent().queues.lock()
}

/// Pages of work memory on a machine with `os_pages` pages of OS memory.
pub(crate) const fn pages_needed(os_pages: u64) -> u64 {
    let pages = (size_of::<QueueMemory>() / size_of::<Page>()) as u64;
    pages + Work::pages_needed(os_pages)
}

/// Sets the work memory, once: at least [`pages_needed`] pages with any contents.
pub(crate) fn take_memory(pages: &'static mut [Page]) {
    let range = PhysRange::new(pages.as_ptr().addr() as u64, size_of_val(pages) as u64);
    let (queues, rest) =
        QueueMemory::take(pages).expect("the work memory has pages for a controller's queues");
    let work = Work::take(rest).expect("the work memory has two more pages");
    LENT.call_once(|| Lent {
        range,
        work: Mutex::new(work),
        queues: Mutex::new(queues),
        memories: Mutex::new(Memories::new_const()),
    });
}

/// Decrypts in place the memory that a save left sealed when the power failed. The work memory must
/// be unchanged since that save.
///
/// # Errors
///
/// [`NotOpened`].
pub(crate) fn open_sealed(
    sealed: SealedMemory,
    key: &SealingKey,
    stopped: &DomainStopped<'_>,
) -> Result<(), NotOpened> {
    let mut memory = os_memory(stopped);
    let mut work = work();
    let workspace = Workspace::new(work.workspace, memory.pages());
    let mut workspace = workspace.expect("the save has used this workspace");
    // SAFETY: as for a sleep.
    unsafe {
        interruptible(0, || {
            open_in_place(sealed, key, &mut memory, &mut workspace, &StoppedHarts)
        })
    }
}
