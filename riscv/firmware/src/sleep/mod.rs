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
mod retain;
mod state;
mod vault;
mod wake;

use poorwill_image::Workspace;
use poorwill_medium::nvme::QueueMemory;
use poorwill_memory::{OsMemory, Page};
use poorwill_retain::End;
use spin::{Mutex, MutexGuard, Once};

use crate::arch::Resume;
use crate::platform::console::say;
use crate::platform::platform;
use crate::report;
pub(crate) use persist::Failed;
use persist::{NotSaved, Order, persist};
pub(crate) use poorwill_store::Committed;
pub(crate) use wake::{ColdBoot, restore_hart, wake};

/// Puts the machine to sleep in the mode that its sleep area is configured for, or
/// where it cannot be saved, with its RAM powered. Returns when it is awake again
/// without its power having been off.
///
/// # Errors
///
/// [`Failed`]: it was to be saved at once, and could not.
pub(crate) fn sleep(resume: Resume) -> Result<(), Failed> {
    let mut order = Order::AsConfigured;
    loop {
        let stage_after_ms = match persist(resume, order) {
            NotSaved::Rests(stage_after_ms) => stage_after_ms,
            NotSaved::NotArmed(lacks) => {
                say!("the machine cannot be saved: {lacks}");
                None
            }
            NotSaved::Failed(error) if order == Order::AsConfigured => return Err(error),
            NotSaved::Failed(error) => {
                say!("the machine cannot be saved and rests on: {error}");
                None
            }
        };
        match rest(stage_after_ms) {
            End::Woken(_) => return Ok(()),
            End::Staged(_) => order = Order::Now,
        }
    }
}

/// Sleeps with the RAM powered, and says so.
fn rest(stage_after_ms: Option<u64>) -> End {
    match stage_after_ms {
        Some(ms) => say!("sleep mode=staged stage_after_ms={ms}"),
        None => say!("sleep mode=retain"),
    }
    let time = &platform().time;
    let began = time.ticks();
    let end = retain::retain(stage_after_ms);
    let ended = time.ticks();
    let slept_ms = time.milliseconds_in(ended.saturating_sub(began));
    match end {
        End::Woken(source) => {
            report::rested(source, slept_ms);
            let ms = time.milliseconds_since(ended);
            say!("wake mode=retain source={source} slept_ms={slept_ms} ms={ms}");
        }
        End::Staged(cause) => say!("staged cause={cause} slept_ms={slept_ms}"),
    }
    end
}

/// The memory that a sleep or a wake works in; there is never more than one.
struct Memory {
    queues: &'static mut QueueMemory,
    /// To look at a partition table with.
    scratch: &'static mut Page,
    record: &'static mut Page,
    workspace: &'static mut [Page],
}

static MEMORY: Once<Mutex<Memory>> = Once::new();

fn work_memory() -> MutexGuard<'static, Memory> {
    let memory = MEMORY.get();
    memory
        .expect("sleep has its memory before it is called")
        .lock()
}

/// Pages that sleeping works in, on a machine with `os_pages` pages of OS memory.
pub(crate) const fn pages_needed(os_pages: u64) -> u64 {
    let pages = (size_of::<QueueMemory>() / size_of::<Page>()) as u64;
    pages + 2 + Workspace::pages_needed(os_pages)
}

/// Gives sleeping its memory, once: at least [`pages_needed`] of it. What is in it
/// does not matter.
pub(crate) fn take_memory(pages: &'static mut [Page]) {
    let (queues, rest) = QueueMemory::take(pages).expect("room for a controller's queues");
    let ([scratch, record], workspace) = rest
        .split_first_chunk_mut()
        .expect("room for two more pages");
    MEMORY.call_once(|| {
        Mutex::new(Memory {
            queues,
            scratch,
            record,
            workspace,
        })
    });
}

/// The OS memory of this machine, to read and to write, for the hart that saves or
/// wakes it.
fn os_memory() -> OsMemory {
    // SAFETY: the map has the machine's memory but for the firmware's own, at its
    // physical addresses, as machine mode has no translation. The one hart that runs
    // makes a value for the length of a sleep or a wake, of which there is one at a
    // time, and keeps no reference into OS memory beside it.
    unsafe { OsMemory::new(platform().memory.clone()) }
}
