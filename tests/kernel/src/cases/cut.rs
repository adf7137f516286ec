//! Runs for a while; the power may fail at any instruction. Nothing here may notice, except by the
//! real-time clock.
//!
//! On the command line: `ms=N` milliseconds in which all harts run, and again in which one does;
//! `fill_mib=N` MiB of memory filled page by page; `dma=1` for a device that writes to memory in
//! that time; `hsm=1` for other harts that start and stop all the time, and one that suspends
//! itself.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{
    arch::{self, guard},
    check, edu,
    machine::{MAX_HARTS, Machine},
    memory::Memory,
    mmio, read_csr, say,
    state::State,
    units::{self, Units},
    verdict::check_success,
    workers, write_csr,
};

/// How far each hart has come, as memory has it.
static COUNTS: [AtomicUsize; MAX_HARTS] = [const { AtomicUsize::new(0) }; MAX_HARTS];

/// How many harts have a count.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The source that the power-fail line is, on these machines.
const SOURCE: usize = 60;

/// Steps from one remote fence to the next.
const FENCE_EVERY: usize = 256;

pub(super) fn run(machine: &Machine, hart: usize) {
    let ticks = machine.number("ms", 1000) as u64 * machine.timebase / 1000;
    let memory = || Memory::new(machine, machine.number("fill_mib", 16));
    let first = memory();
    first.fill(1);
    let end = arch::time() + ticks;
    if machine.number("dma", 0) == 1 {
        edu::write_later(machine, first.last_dense());
    }
    if let Some(plic) = machine.plic {
        silence(plic);
    }
    say!("cut: all harts run");
    if machine.number("hsm", 0) == 1 {
        come_and_go(machine, hart, end);
    } else {
        workers::with_all(machine, hart, &|| run_until(machine, end), |all| all());
    }
    let wrong = first.verify(1);
    check!(wrong == 0, "{wrong} pages are not as they were");
    let mut state = State::set_up(machine, hart, 2, memory());
    state.leave_pending(machine);
    say!("cut: one hart runs");
    let end = arch::time() + ticks;
    while arch::time() < end {
        core::hint::spin_loop();
    }
    state.check_unchanged(machine, hart);
    let counts = COUNTS.iter().map(|count| count.load(Ordering::Relaxed));
    say!("cut: {} steps", counts.sum::<usize>());
}

/// Tries to keep the machine from noticing: the source's priority, its enable bit in each
/// context, and machine mode's threshold and claims.
fn silence(plic: usize) {
    let priority = plic + 4 * SOURCE;
    mmio::write32(priority, 0);
    let found = mmio::read32(priority);
    check!(found != 0, "the power-fail line has a priority: {found}");
    for context in 0..4 {
        let enables = plic + 0x2000 + context * 0x80 + SOURCE / 32 * 4;
        // Machine mode's are closed.
        if guard::store32(enables, u32::MAX).is_none() {
            let found = mmio::read32(enables) >> (SOURCE % 32) & 1;
            check!(
                found == 0,
                "the power-fail line is no source of context {context}"
            );
            mmio::write32(enables, 0);
        }
    }
    let own = plic + 0x20_0000;
    for (register, what) in [(own, "threshold"), (own + 4, "claim")] {
        let load = guard::load32(register);
        check!(
            load == Some(guard::LOAD_FAULT),
            "machine mode's {what}: {load:?}"
        );
    }
}

/// Has each other hart start, take an IPI and stop, and the own one suspend itself until a
/// timer rings, again and again.
fn come_and_go(machine: &Machine, hart: usize, end: u64) {
    let mut turns = 0;
    while arch::time() < end {
        let units = hold(machine, turns);
        workers::check_all(machine, hart);
        suspend(machine);
        units.check();
        turns += 1;
    }
    say!("cut: harts came and went {turns} times");
}

fn suspend(machine: &Machine) {
    let due = arch::time() + machine.timebase / 10_000;
    check_success("set_timer", sbi_rt::set_timer(due));
    let old = read_csr!("sie");
    write_csr!("sie", arch::TIMER);
    // It may return early, as whatever the machine does may wake it.
    while read_csr!("sip") & arch::TIMER == 0 {
        check_success(
            "hart_suspend",
            sbi_rt::hart_suspend(sbi_rt::Retentive, 0, 0),
        );
    }
    let now = arch::time();
    check!(now >= due, "the timer for {due} rang at {now}");
    write_csr!("sie", old);
    let _ = sbi_rt::set_timer(u64::MAX);
}

/// Counts in a register, in memory and in a CSR, which must agree; and has all harts fence.
/// The floating point and the vector unit hold something meanwhile, and are Off.
fn run_until(machine: &Machine, end: u64) {
    let count = &COUNTS[TAKEN.fetch_add(1, Ordering::Relaxed)];
    let (mut step, mut now) = (0, arch::time());
    let mut units = hold(machine, 0);
    while now < end {
        let found = (count.load(Ordering::Relaxed), read_csr!("sscratch"));
        check!(
            step == 0 || found == (step, step),
            "step {step}, in memory and in sscratch {found:?}"
        );
        step += 1;
        count.store(step, Ordering::Relaxed);
        write_csr!("sscratch", step);
        if step.is_multiple_of(FENCE_EVERY) {
            let fenced = sbi_rt::remote_sfence_vma(sbi_rt::HartMask::all(), 0, 4096);
            check!(fenced.is_ok(), "a remote fence: {fenced:?}");
            units.check();
            units = hold(machine, step / FENCE_EVERY);
        }
        let last = now;
        now = arch::time();
        check!(now >= last, "time went back from {last} to {now}");
    }
}

fn hold(machine: &Machine, number: usize) -> Units {
    let units = Units::set(machine, number);
    units::turn_off();
    units
}
