//! Sleeping and waking.
//!
//! The protocol is the store's ([`poorwill_store::sleep()`],
//! [`poorwill_store::wake()`]), where it can be explored without hardware; here
//! are the machine's part in it and its words. A sleep is a chain of values,
//! each made from the one before and none to be had otherwise: quiesced,
//! captured, saved, [`Committed`]. Switching the power off takes the last one.

mod device;
mod disk;
mod persist;
mod progress;
mod state;
mod vault;
mod wake;

use poorwill_image::Workspace;
use poorwill_medium::nvme::QueueMemory;
use poorwill_memory::{OsMemory, PAGE_BYTES, Page};
use spin::Mutex;

pub(crate) use persist::{SleepError, persist};
pub(crate) use poorwill_store::Committed;
pub(crate) use wake::{ColdBoot, restore_hart, wake};

/// OS memory that a sleep can take: what the workspace below has room for.
const MAX_OS_PAGES: u64 = (16 << 30) / PAGE_BYTES;

const WORKSPACE_PAGES: usize = Workspace::pages_needed(MAX_OS_PAGES) as usize;

/// The memory that a sleep or a wake works in; there is never more than one.
struct Memory {
    queues: QueueMemory,
    /// To look at a partition table with.
    scratch: Page,
    record: Page,
    workspace: [Page; WORKSPACE_PAGES],
}

static MEMORY: Mutex<Memory> = Mutex::new(Memory {
    queues: QueueMemory::EMPTY,
    scratch: Page::ZERO,
    record: Page::ZERO,
    workspace: [const { Page::ZERO }; WORKSPACE_PAGES],
});

/// The OS memory of this machine, to read and to write: a value of its own, as
/// a wake fills the memory that the platform only describes.
fn os_memory() -> OsMemory {
    crate::platform::platform().memory.clone()
}
