//! A hart lends its state to the weak hart, and takes it back.

use poorwill_arch::{csr, fence, irqs_off};
use poorwill_hart::emulation::status;
use poorwill_hart::interrupt::SSI;
use poorwill_hart::{Csr, CsrAccess, Execution, HartAccess, IpiDevice, NEVER};
use poorwill_memory::EntryPoint;
use poorwill_translate::{Features, Mode, VirtualHart};
use spin::Once;

use super::hand_back;
use super::lent::{End, Executor, Half, LENT, Lent, executor};
use crate::entry::{self, TrapFrame};
use crate::hart::ThisHart;
use crate::platform::platform;

/// Maximum wait for the weak hart to begin.
const PATIENCE_MS: u64 = 1000;

/// Modes of `satp` that the weak hart knows (privileged specification, table 12.3).
const MODES: [u64; 3] = [8, 9, 10];
const MODE_SHIFT: u32 = 60;
const SPACE: u64 = 0xffff << SPACE_SHIFT;
const SPACE_SHIFT: u32 = 44;

/// Lets the weak hart run the OS from `vector` on. Continues the OS where that ends; returns if
/// there is no weak hart, or it does not answer.
pub(crate) fn resume(hart: ThisHart, vector: EntryPoint) {
    let is_protected = hart.domain().plan.is_completed();
    let Some(executor) = executor().filter(|it| is_protected && it.has_arrived()) else {
        return;
    };
    {
        let mut lent = LENT.lock();
        if lent.half.is_open() {
            report(hart, &mut lent);
        }
        lent.half = Half::begin(platform().time.ticks());
    }
    let mut frame = entry::frame_at(vector);
    lend(executor, hart, &mut frame);
    irqs_off::end();
    // SAFETY: the frame is the OS's on this hart, whose call chain ends here.
    unsafe { entry::return_to(&frame, hart.stack_top()) }
}

/// Lets the weak hart run the OS from the frame on, and puts into the frame where that ends.
fn lend(executor: &Executor, hart: ThisHart, frame: &mut TrapFrame) {
    hand_over(hart, frame, &mut LENT.lock());
    let is_done = is_carried_out(executor, hart);
    let mut lent = LENT.lock();
    take_back(hart, frame, &lent);
    lent.hart.forget();
    match is_done {
        true if hand_back::call_again(hart, &mut lent) => {}
        true => report(hart, &mut lent),
        false => (hart.domain()).say(format_args!("executor: the weak hart does not answer")),
    }
}

/// Lends the hart again at the end of a trap, if the weak hart has not ended its half.
#[cfg(feature = "hand-back")]
pub(crate) fn lend_again(hart: ThisHart, frame: &mut TrapFrame) {
    let Some(executor) = executor() else {
        return;
    };
    {
        let mut lent = LENT.lock();
        if !lent.half.is_open() || lent.lender != hart.id() {
            return;
        }
        if !is_supervisor(frame) {
            lent.end = End::User;
            return report(hart, &mut lent);
        }
    }
    hart.timer().set_machine_timer(NEVER);
    lend(executor, hart, frame);
}

/// Asks the weak hart, and rests until it is done. Returns false if it does not begin.
fn is_carried_out(executor: &Executor, hart: ThisHart) -> bool {
    let time = &platform().time;
    let latest = time.ticks() + time.ticks_in(PATIENCE_MS * 1_000_000);
    assert!(executor.ask.ask(), "one hart is lent");
    executor.ipi.send();
    while !executor.ask.is_done() {
        let is_asked = executor.ask.is_asked();
        if is_asked && time.ticks() >= latest && executor.ask.withdraw() {
            return false;
        }
        hart.timer()
            .rest_until(if is_asked { latest } else { NEVER });
        hart.handle_ipi();
    }
    true
}

/// Fills the virtual hart from the calling hart and its frame. The lent hart's own interrupts are
/// off afterwards.
fn hand_over(hart: ThisHart, frame: &TrapFrame, lent: &mut Lent) {
    let access = hart.access();
    let read = |csr| access.read_csr(csr).unwrap_or(0);
    let extensions = &hart.description.extensions;
    let own_timer = hart.timer().supervisor_deadline();
    lent.lender = hart.id();
    let VirtualHart {
        x,
        pc,
        mode,
        f,
        csrs,
        features,
        ..
    } = &mut lent.hart;
    let Translation { modes, space_mask } = *translation();
    *features = Features {
        modes,
        space_mask,
        float: access.has_float(),
        sstc: extensions.sstc,
        sets_accessed: extensions.svadu,
        page_types: extensions.svpbmt,
        zero_block: hart.description.zero_block,
    };
    *x = frame.x.map(|register| register as u64);
    // A trap does not store it.
    x[0] = 0;
    *pc = frame.mepc as u64;
    *mode = Mode::Supervisor;
    if let Some(registers) = access.read_float() {
        f.copy_from_slice(&registers[..32]);
        csrs.fcsr = registers[32];
    }
    // Machine mode may have opened units since the trap, so not by the CSR.
    csrs.sstatus = frame.mstatus as u64 & status::OF_SUPERVISOR;
    csrs.sie = read(Csr::Sie);
    csrs.stvec = read(Csr::Stvec);
    csrs.scounteren = read(Csr::Scounteren);
    csrs.senvcfg = read(Csr::Senvcfg);
    csrs.sscratch = read(Csr::Sscratch);
    csrs.sepc = read(Csr::Sepc);
    csrs.scause = read(Csr::Scause);
    csrs.stval = read(Csr::Stval);
    csrs.satp = csr::read::<{ csr::SATP }>();
    csrs.software_interrupt = hart.clear_supervisor_ipi();
    csrs.deadline = own_timer.unwrap_or_else(csr::read::<{ csr::STIMECMP }>);
    access.write_csr(Csr::Sie, 0);
    hart.timer().set_supervisor_timer(NEVER);
}

/// Puts the virtual hart's state into the calling hart and into the frame.
fn take_back(hart: ThisHart, frame: &mut TrapFrame, lent: &Lent) {
    let access = hart.access();
    let VirtualHart {
        x,
        pc,
        mode,
        f,
        csrs,
        features,
        ..
    } = &lent.hart;
    if features.float {
        let mut registers = [0; 33];
        registers[..32].copy_from_slice(f);
        registers[32] = csrs.fcsr;
        access.write_float(&registers);
    }
    for (csr, value) in [
        (Csr::Sie, csrs.sie),
        (Csr::Stvec, csrs.stvec),
        (Csr::Sscratch, csrs.sscratch),
        (Csr::Sepc, csrs.sepc),
        (Csr::Scause, csrs.scause),
        (Csr::Stval, csrs.stval),
    ] {
        access.write_csr(csr, value);
    }
    if csrs.software_interrupt {
        access.write_csr(Csr::Sip, SSI);
    }
    hart.timer().set_supervisor_timer(csrs.deadline);
    let mode = match mode {
        Mode::User => 0,
        Mode::Supervisor => csr::status::MPP_SUPERVISOR,
    };
    let left = Execution {
        x: *x,
        pc: *pc,
        status: csrs.sstatus | mode,
        address_space: csrs.satp,
        cycles: 0,
        instructions: 0,
    };
    let own = frame.mstatus as u64;
    let status = left.status_for_return(own);
    frame.mstatus = status.expect("a virtual hart has no machine mode") as usize;
    frame.mepc = left.pc as usize;
    frame.x = left.x.map(|register| register as usize);
    // SAFETY: machine mode does not use satp.
    unsafe { csr::write::<{ csr::SATP }>(left.address_space) };
    // The weak hart has written code; `return_to` drops all translations.
    fence::instructions();
}

/// Returns whether the frame's trap came from the OS itself: not from a program or a guest.
#[cfg(feature = "hand-back")]
fn is_supervisor(frame: &TrapFrame) -> bool {
    let mode = frame.mstatus as u64 & (csr::status::MPP | csr::status::MPV);
    mode == csr::status::MPP_SUPERVISOR
}

/// Ends the half, and tells the domain.
fn report(hart: ThisHart, lent: &mut Lent) {
    let counts = core::mem::take(&mut lent.hart.counts);
    let end = match lent.end {
        End::User => "user",
        End::Call => "call",
        End::Unknown => "instruction",
        End::Late => "late",
        End::Turn => "turn",
    };
    let Half { began, hand_backs } = lent.half.end();
    let domain = hart.domain();
    if hand_backs > 0 {
        domain.say(format_args!("executor hand_backs={hand_backs}"));
    }
    domain.say(format_args!(
        "executor harts=1 instructions={} mmio={} interrupts={} exceptions={} ms={} end={end}",
        counts.instructions,
        counts.device_accesses,
        counts.interrupts,
        counts.exceptions,
        platform().time.milliseconds_since(began),
    ));
}

/// What the lent hart keeps of `satp`.
#[derive(Clone, Copy, Debug)]
struct Translation {
    /// Modes that it takes, as bits.
    modes: u16,
    /// Bits of an ASID that it keeps.
    space_mask: u64,
}

/// Probes `satp` once. A probe at each lending would drop the hart's translations on some harts,
/// and hide a missing fence.
fn translation() -> &'static Translation {
    static TRANSLATION: Once<Translation> = Once::new();
    TRANSLATION.call_once(|| Translation {
        modes: modes(),
        space_mask: space_mask(),
    })
}

/// Writes `satp`, and returns what it keeps. It is restored afterwards.
fn kept_of_satp(value: u64) -> u64 {
    let before = csr::read::<{ csr::SATP }>();
    // SAFETY: machine mode does not use satp, and the old value returns.
    unsafe {
        csr::write::<{ csr::SATP }>(value);
        let kept = csr::read::<{ csr::SATP }>();
        csr::write::<{ csr::SATP }>(before);
        kept
    }
}

/// The modes of `satp` that the calling hart takes, as bits.
fn modes() -> u16 {
    let takes = |mode: &&u64| kept_of_satp(**mode << MODE_SHIFT) >> MODE_SHIFT == **mode;
    MODES
        .iter()
        .filter(takes)
        .fold(1, |modes, mode| modes | 1 << mode)
}

/// Bits of an ASID that the calling hart keeps.
fn space_mask() -> u64 {
    let kept = |mode: &u64| kept_of_satp(*mode << MODE_SHIFT | SPACE);
    let kept = MODES.iter().map(kept).fold(0, |all, kept| all | kept);
    (kept & SPACE) >> SPACE_SHIFT
}
