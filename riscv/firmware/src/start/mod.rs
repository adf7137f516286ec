//! From power-on to the next stage, or to a wake.

mod boot_hart;
mod error;
mod machine;
mod memory;
pub(crate) mod next_stage;
mod partition;
mod previous;

use arrayvec::ArrayVec;
use poorwill_arch::{interruptible, irqs_off};
use poorwill_devicetree::{self as devicetree, MAX_DOMAINS, Machine, Partition};
use poorwill_domain::FwDynamic;
use poorwill_hart::{Request, Task};
use poorwill_memory::EntryPoint;
use poorwill_sleep::cut::NoGo;
use poorwill_sleep::{ColdBoot, ColdStart};

use crate::domain::{self, LiveDomain};
use crate::entry::stack;
use crate::executor;
use crate::hart::domain_state::{self, NoneStarted};
use crate::hart::{self, Hart, ThisHart};
use crate::platform::console::say;
use crate::platform::{self, loaded, platform, power};
use crate::{cut, sleep};
use error::BootError;
use machine::StartError;
use previous::{Described, Previous};

/// Entry point from entry.S for the first hart to arrive.
#[unsafe(no_mangle)]
extern "C" fn boot_hart(hart_id: u64, tree: usize, information: usize) -> ! {
    match boot(hart_id, tree, information) {
        Ok(never) => match never {},
        Err(error) => {
            say!("cannot start: {error}");
            match error.may_pass() {
                true => power::fatal(),
                false => power::stop(),
            }
        }
    }
}

/// Sets the machine up, then wakes it or boots it cold.
fn boot(
    hart_id: u64,
    tree: usize,
    information: usize,
) -> Result<core::convert::Infallible, BootError> {
    irqs_off::begin();
    stack::begin_on_deep();
    let begun = start(hart_id, tree, information)?;
    let start = resume(&begun)?;
    say!("cold boot: {}", start.reason());
    start_domains(begun.own, &begun.next, &start)
}

/// Resumes a cut, or wakes the machine from its image or its set; else returns the reasons for a
/// cold boot.
// Not inlined: as for `start`.
#[inline(never)]
fn resume(begun: &Begun) -> Result<ColdStart, BootError> {
    // The power supply may still ramp up. A wake would then end in a cut as soon as the line is
    // armed.
    early(cut::wait_for_power);

    let none = NoneStarted::find().map_err(|hart| BootError::NotStopped(hart.id()))?;
    let no_cut = match cut::go(begun.own, begun.began) {
        Ok(never) => match never {},
        Err(NoGo::Cold(reason)) => reason,
        Err(NoGo::Reset(reason)) => {
            say!("cut: {reason}; reset");
            power::restart()
        }
    };
    let start_cold = |domain, reason| start_beside(domain, begun, reason);
    let start = sleep::wake(begun.began, &none, no_cut, &start_cold);
    Ok(match no_cut {
        Some(reason) => start.because(ColdBoot::Cut(reason)),
        None => start,
    })
}

/// Starts the next stage of each domain, in the order in which they wake.
fn start_domains(
    own: ThisHart,
    stage: &FwDynamic,
    start: &ColdStart,
) -> Result<core::convert::Infallible, BootError> {
    // All or none of them start, so all are prepared first.
    let entries = prepare_domains(start)?;
    // This comes before the line is armed: a hart that waits for another does not check the line.
    let mut firsts = ArrayVec::<&Hart, MAX_DOMAINS>::new();
    for domain in domain::all() {
        firsts.push(early(|| boot_hart::of(domain, &own, stage))?);
    }
    early(|| cut::begin(own));
    for ((domain, entry), first) in domain::all().zip(entries).zip(firsts) {
        if !domain.name.is_empty() {
            say!("domain {}: starts on hart {}", domain.name, first.id());
        }
        domain.run();
        first.start(Task::Start(entry))?;
    }
    #[cfg(feature = "stack-marks")]
    if domain::all().count() > 1 {
        hart::say_stacks(None);
    }
    // Like all harts, this one waits for its start.
    own.wait()
}

/// Starts the next stage of a domain while others run; without success, ends the domain.
fn start_beside(domain: &'static LiveDomain, begun: &Begun, reason: ColdBoot) {
    let started = prepare_beside(domain, reason).and_then(|entry| {
        let first = boot_hart::of(domain, &begun.own, &begun.next)?;
        domain.run();
        Ok(first.start(Task::Start(entry))?)
    });
    if let Err(error) = started {
        say!("domain {} cannot start: {error}", domain.name);
        domain_state::give_up(domain);
    }
}

/// Prepares the device tree of a domain that starts while others run. Their memory is not as the
/// previous stage left it.
fn prepare_beside(domain: &LiveDomain, reason: ColdBoot) -> Result<EntryPoint, BootError> {
    let tree = domain.next_stage.tree.map(|tree| tree.blob);
    if tree.is_some_and(|blob| !domain.memory.contains(blob.start, blob.length())) {
        return Err(BootError::ForeignTree);
    }
    // SAFETY: the domain has not run since the power-on, and its tree lies in its own memory.
    Ok(unsafe { next_stage::prepare(platform(), domain, reason, cut::has_line()) }?)
}

/// Prepares all domains' device trees. Returns where each next stage starts.
fn prepare_domains(start: &ColdStart) -> Result<ArrayVec<EntryPoint, MAX_DOMAINS>, BootError> {
    let mut entries: ArrayVec<_, MAX_DOMAINS> =
        domain::all().map(|_| EntryPoint::default()).collect();
    // Several domains may get copies of one tree. A domain whose tree stays in place changes that
    // tree, so it comes after those that copy it.
    let copies = domain::all().filter(|domain| domain.copies_tree());
    for domain in copies.chain(domain::all().filter(|domain| !domain.copies_tree())) {
        let reason = start.of(domain.index);
        // SAFETY: the machine boots cold, and no tree was read since the start.
        let entry =
            early(|| unsafe { next_stage::prepare(platform(), domain, reason, cut::has_line()) })?;
        entries[domain.index] = entry;
    }
    Ok(entries)
}

/// What the start of the machine leads to.
struct Begun {
    /// The previous stage's information.
    next: FwDynamic,
    own: ThisHart,
    /// `time` when the start began.
    began: u64,
}

/// Sets up the machine and its harts.
// Not inlined, so that its stack is free before a wake needs it.
#[inline(never)]
fn start(hart_id: u64, tree: usize, information: usize) -> Result<Begun, BootError> {
    // SAFETY: entry.S passes on the previous stage's addresses, which may be wrong. But reads have
    // no side effects there or within the tree's memory, and this hart is alone on the machine.
    let load: fn(u64, &mut [u8]) = |address, into| unsafe { loaded::load(address, into) };
    let blob = FwDynamic::find_tree(tree as u64, load)?;
    // SAFETY: a blob of this length was found there, and only `prepare` writes it later.
    let blob_bytes = unsafe { loaded::tree(blob) };
    let mut machine = Machine::default();
    let found = early(|| machine.survey_or_salvage(blob_bytes));
    // SAFETY: the tree describes this machine, and boot is called once.
    unsafe { platform::start_console(&machine) };
    found?;
    if let Some(error) = machine.cold_boot_harts.error {
        say!("{error}");
    }
    for error in &machine.switches.errors {
        say!("{error}");
    }
    let next = FwDynamic::read(blob, information as u64, load)?;
    let mut next = next.among(|hart| machine.cold_boot_harts.contain(hart));
    let is_open = "the machine's survey has opened the tree";
    let domains = (machine.has_domains).then(|| devicetree::open(blob_bytes).expect(is_open));
    let described = early(|| partition::describe(domains, &machine, &mut next, load));
    let (domains, usable) = described.map_err(StartError::from)?;
    if !usable.contains(&hart_id) {
        // SAFETY: the tree describes this machine, on which this hart is alone.
        unsafe { boot_hart::hand_over(hart_id, &machine, &usable, &next, [tree, information]) };
        return Err(BootError::NoBootHart(hart_id));
    }
    let previous = Previous {
        domains,
        information: &next,
        load,
    };
    // SAFETY: the tree describes this machine, and boot is called once.
    let started = early(|| unsafe {
        let cut_pages = cut::pages_needed(&machine);
        machine::start(&machine, &previous, hart::memory::pages_needed, cut_pages)
    })?;
    // SAFETY: the tree describes this machine.
    unsafe {
        hart::start(&machine);
        executor::start(&machine);
    }
    hart::memory::take_memory(started.pages);
    cut::take_memory(started.cut_pages, machine.harts.len());
    let began = started.platform.time.ticks();
    let place = hart::all().iter().position(|hart| hart.id() == hart_id);
    let place = place.expect("a hart that may boot has a domain");
    let own = hart::all()[place].init(started.stacks.top(place));
    executor::join(own);
    // A hart that handed the start over has sent this one an IPI.
    own.clear_ipi();
    started.stacks.publish();
    if let Described::Fenced(partition) = domains {
        // SAFETY: the tree describes this machine, and boot is called once.
        unsafe { begin_fenced(&machine, partition)? };
    }
    // This hart is left out: it would not handle the IPI while it loads. QEMU runs a hart with a
    // pending interrupt at a third of its speed, and the hart could not rest.
    hart::others().for_each(|hart| hart.send_ipi(Request::Start));
    executor::release();
    Ok(Begun { next, own, began })
}

/// Closes memory to all devices but machine mode's and the domains'. First ends what earlier starts
/// have left, if no image of the domains can wake: their disks and memory will differ.
///
/// # Safety
///
/// `machine` describes this machine, and this is called once.
// Not inlined: its frame must not lie below the rest of the start on the deep stack.
#[inline(never)]
unsafe fn begin_fenced(machine: &Machine, partition: &'static Partition) -> Result<(), BootError> {
    let none = NoneStarted::find().map_err(|hart| BootError::NotStopped(hart.id()))?;
    if platform().keeps.is_none() {
        sleep::discard_images(&none);
    }
    cut::forget_all();
    // SAFETY: passed on to the caller.
    Ok(early(|| unsafe { machine::fence_dma(machine, partition) })?)
}

/// Runs long work while no OS runs.
#[track_caller]
fn early<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: no OS has a timer that could fire.
    unsafe { interruptible(0, work) }
}

/// Entry point from entry.S for the other harts, each with its stack and its index in the list.
/// They wait for a start by the OS.
#[unsafe(no_mangle)]
extern "C" fn other_hart(place: usize, stack_top: usize) -> ! {
    match hart::all().get(place) {
        Some(hart) => {
            let own = hart.init(stack_top);
            executor::join(own);
            own.wait()
        }
        // SAFETY: the only hart of the table beside those is the weak one.
        None => unsafe { executor::wait(stack_top) },
    }
}
