//! Poorwill: RISC-V machine-mode firmware whose machines sleep with the power
//! off. See docs/architecture.md for the way through it.
#![no_std]
#![no_main]
#![deny(clippy::let_underscore_must_use)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits on every machine that this runs on; registers narrower than their values are cut on purpose"
)]

mod banks;
mod boot_hart;
mod cut;
mod entry;
mod hart;
mod manifest;
mod mediate;
mod next_stage;
mod platform;
mod remote_fence;
mod report;
mod sbi;
mod sleep;
mod sleep_memory;
mod sleeper;
mod stopped;
mod trap;
mod workers;

use poorwill_arch::{interruptible, irqs_off};
use poorwill_devicetree::{DescriptionError, Machine};
use poorwill_domain::{FwDynamic, FwDynamicError};
use poorwill_hart::{Request, Task, WrongState};
use poorwill_memory::PhysRange;
use poorwill_sleep::ColdBoot;
use poorwill_sleep::cut::NoGo;
use thiserror::Error;

use crate::entry::stack;
use crate::hart::ThisHart;
use crate::next_stage::NextStageError;
use crate::platform::console::say;
use crate::platform::{PlatformError, Started, domain, platform, power};

/// Why the machine cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum BootError {
    /// The previous stage's information is of no use.
    #[error("{0}")]
    FwDynamic(#[from] FwDynamicError),
    /// The next stage cannot be started.
    #[error("{0}")]
    NextStage(#[from] NextStageError),
    /// The device tree is of no use.
    #[error("{0}")]
    Description(#[from] DescriptionError),
    /// The machine is.
    #[error("{0}")]
    Platform(#[from] PlatformError),
    /// The calling hart cannot run an OS, and none takes the start that can.
    #[error("hart {0} cannot run an OS, and no hart has arrived that can")]
    NoBootHart(u64),
    /// A hart runs that nobody has started.
    #[error("hart {0} runs already")]
    NotStopped(u64),
    /// The hart for the next stage, which nobody else can start, has been started.
    #[error("the boot hart cannot be started: {0}")]
    Start(#[from] WrongState),
}

/// Where the first hart to arrive comes from entry.S.
#[unsafe(no_mangle)]
extern "C" fn boot_hart(hart_id: u64, tree: usize, information: usize) -> ! {
    match boot(hart_id, tree, information) {
        Ok(never) => match never {},
        Err(error) => {
            say!("cannot start: {error}");
            power::fatal()
        }
    }
}

/// Brings the machine up, then wakes it or boots it cold.
fn boot(
    hart_id: u64,
    tree: usize,
    information: usize,
) -> Result<core::convert::Infallible, BootError> {
    irqs_off::begin();
    stack::begin_on_deep();
    let (next, own, began) = start(hart_id, tree, information)?;
    // Supplies that still ramp up: what begins now would be cut as soon as the line is armed.
    early(cut::wait_for_power);

    // They wait for the OS to start them, which does not run yet.
    let stopped = hart::others_stopped().map_err(|hart| BootError::NotStopped(hart.id()))?;
    let no_cut = match cut::go(own, began) {
        Ok(never) => match never {},
        Err(NoGo::Cold(reason)) => reason,
        Err(NoGo::Reset(reason)) => {
            say!("cut: {reason}; reset");
            power::fatal()
        }
    };
    let reason = sleep::wake(began, &stopped, no_cut);
    let reason = no_cut.map_or(reason, ColdBoot::Cut);
    say!("cold boot: {reason}");
    let domain = domain::of(own.id());
    // SAFETY: the machine boots cold, and nobody has read the tree since the start.
    let resume = early(|| unsafe {
        next_stage::prepare(&next, platform(), domain, reason, cut::has_line())
    })?;
    // Before the line is armed: who waits for a hart does not look at the line.
    let first = early(|| boot_hart::for_next_stage(&own, &next));
    early(|| cut::begin(own));
    // This hart waits to be started, as all do.
    first.start(Task::Start(resume))?;
    own.wait()
}

/// Takes the machine and its harts into use. Returns what the previous stage left, the
/// calling hart, and when that began.
// What it needs of the stack is gone before a wake needs it.
#[inline(never)]
fn start(
    hart_id: u64,
    tree: usize,
    information: usize,
) -> Result<(FwDynamic, ThisHart, u64), BootError> {
    // SAFETY: entry.S passes on the addresses that the previous stage gave, which may
    // be wrong, but reading there has no side effects, nor where the tree says that
    // memory is; and this hart is alone on the machine.
    let load = |address, into: &mut [u8]| unsafe { next_stage::load(address, into) };
    let blob = FwDynamic::find_tree(tree as u64, load)?;
    // SAFETY: a blob of this length was found there, and nobody else writes it before
    // `prepare`.
    let blob_bytes = unsafe { next_stage::tree(blob) };
    let mut machine = Machine::default();
    let found = early(|| machine.survey_or_salvage(blob_bytes));
    // SAFETY: the tree describes this machine, and boot is called once.
    unsafe { platform::start_console(&machine) };
    found?;
    let next = FwDynamic::read(blob, information as u64, load)?;
    let Some(place) = machine.harts.iter().position(|hart| hart.id == hart_id) else {
        // SAFETY: the tree describes this machine, on which this hart is alone.
        unsafe { boot_hart::hand_over(hart_id, &machine, &next, tree, information) };
        return Err(BootError::NoBootHart(hart_id));
    };
    let taken = |memory: &[PhysRange]| next.taken(memory, load);
    // SAFETY: the tree describes this machine, and boot is called once.
    let Started {
        platform,
        stacks,
        cut_pages,
        pages,
    } = early(|| unsafe {
        let cut_pages = cut::pages_needed(&machine);
        platform::start(&machine, taken, sleep_memory::pages_needed, cut_pages)
    })?;
    // SAFETY: the tree describes this machine.
    unsafe { hart::start(&machine.harts) };
    sleep_memory::take_memory(pages);
    cut::take_memory(cut_pages, machine.harts.len());
    let began = platform.time.ticks();
    let own = hart::all()[place].init(stacks.top(place));
    // A hart that handed the start over rang this one's doorbell.
    own.clear_ipi();
    stacks.publish();
    // Not this one, which would not handle it while it loads: QEMU runs a hart with
    // anything pending at a third of its speed, and it could not rest.
    hart::others().for_each(|hart| hart.send_ipi(Request::Start));
    Ok((next, own, began))
}

/// Runs long work, as long as no OS runs.
#[track_caller]
fn early<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: no OS has a timer that could ring.
    unsafe { interruptible(0, work) }
}

/// Where the other harts come from entry.S, each on its own stack and with its place
/// in the list. They wait for the OS to start them.
#[unsafe(no_mangle)]
extern "C" fn other_hart(place: usize, stack_top: usize) -> ! {
    hart::all()[place].init(stack_top).wait()
}
