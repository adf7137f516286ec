//! The state of a hart as a virtual hart, and back.

use poorwill_arch::{csr, fence};
use poorwill_hart::emulation::status;
use poorwill_hart::interrupt::SSI;
use poorwill_hart::{Csr, CsrAccess, Execution, HartAccess, NEVER};
use poorwill_translate::{Activity, Features, Mode, VirtualHart};

use crate::entry::TrapFrame;
use crate::hart::ThisHart;

/// Modes of `satp` that the weak hart knows (privileged specification, table 12.3).
const MODES: [u64; 3] = [8, 9, 10];
const MODE_SHIFT: u32 = 60;
const SPACE: u64 = 0xffff << SPACE_SHIFT;
const SPACE_SHIFT: u32 = 44;

/// Fills the virtual hart from the calling hart and its frame. The lent hart's own interrupts are
/// off afterwards.
pub(super) fn hand_over(hart: ThisHart, frame: &TrapFrame, lent: &mut VirtualHart) {
    let access = hart.access();
    let read = |csr| access.read_csr(csr).unwrap_or(0);
    let own_timer = hart.timer().supervisor_deadline();
    let VirtualHart {
        x,
        pc,
        mode,
        f,
        csrs,
        ..
    } = lent;
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
    lent.activity = Activity::Runs;
}

/// Puts the virtual hart's state into the calling hart and into the frame.
pub(super) fn take_back(hart: ThisHart, frame: &mut TrapFrame, lent: &mut VirtualHart) {
    let access = hart.access();
    let VirtualHart {
        x,
        pc,
        mode,
        f,
        csrs,
        features,
        ..
    } = lent;
    if features.float {
        let mut registers = [0; 33];
        registers[..32].copy_from_slice(f);
        registers[32] = csrs.fcsr;
        access.write_float(&registers);
    }
    for (csr, value) in [
        (Csr::Sie, csrs.sie),
        (Csr::Scounteren, csrs.scounteren),
        (Csr::Stvec, csrs.stvec),
        (Csr::Sscratch, csrs.sscratch),
        (Csr::Sepc, csrs.sepc),
        (Csr::Scause, csrs.scause),
        (Csr::Stval, csrs.stval),
    ] {
        access.write_csr(csr, value);
    }
    if features.environment != 0 {
        access.write_csr(Csr::Senvcfg, csrs.senvcfg);
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
    // The weak hart has written code, and has fenced translations for this hart.
    fence::instructions();
    fence::all();
    lent.forget();
    lent.activity = Activity::Stopped;
}

/// The properties of the calling hart, before it runs an OS. A probe at each lending would drop the
/// hart's translations on some harts, and hide a missing fence.
pub(super) fn features(hart: ThisHart) -> Features {
    let access = hart.access();
    let extensions = &hart.description.extensions;
    let counters_at_start = csr::read::<{ csr::SCOUNTEREN }>();
    Features {
        modes: modes(),
        space_mask: space_mask(),
        float: access.has_float(),
        sstc: extensions.sstc,
        sets_accessed: extensions.svadu,
        page_types: extensions.svpbmt,
        zero_block: hart.description.zero_block,
        counters: kept_bits(hart, Csr::Scounteren),
        counters_at_start,
        environment: kept_bits(hart, Csr::Senvcfg),
        identity: [
            csr::read::<{ csr::MVENDORID }>(),
            csr::read::<{ csr::MARCHID }>(),
            csr::read::<{ csr::MIMPID }>(),
        ],
    }
}

/// The bits that a CSR keeps; zero if the hart lacks it.
fn kept_bits(hart: ThisHart, csr: Csr) -> u64 {
    let access = hart.access();
    let Some(before) = access.read_csr(csr) else {
        return 0;
    };
    access.write_csr(csr, u64::MAX);
    let kept = access.read_csr(csr).unwrap_or(0);
    access.write_csr(csr, before);
    kept
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
