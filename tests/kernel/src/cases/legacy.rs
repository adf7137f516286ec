//! The legacy calls (SBI 3.0, chapter 5), which return in a0 alone and read their hart masks
//! from virtual addresses. With `end=legacy` on the command line the legacy shutdown ends the
//! machine after the checks.

use crate::{
    arch::{
        self, SOFTWARE, SSTATUS_MXR, SSTATUS_SUM, TIMER, guard,
        guard::LOAD_FAULT,
        registers::{self, Registers, Returned},
        translated::{self, EXECUTE, READ, USER, fence, map, unmap},
    },
    check,
    machine::Machine,
    memory::mix,
    read_csr, workers, write_csr,
};
use core::sync::atomic::{AtomicUsize, Ordering};
use sbi_spec::{base, legacy::*};

/// Those whose first argument is the address of a hart mask.
pub(super) const MASKED: [usize; 4] = [
    LEGACY_SEND_IPI,
    LEGACY_REMOTE_FENCE_I,
    LEGACY_REMOTE_SFENCE_VMA,
    LEGACY_REMOTE_SFENCE_VMA_ASID,
];

/// All extension IDs that legacy calls have, the reserved ones included.
pub(super) const ALL: core::ops::RangeInclusive<usize> = 0..=0xf;

/// `scause` of a load that translation refused.
pub(super) const LOAD_PAGE_FAULT: usize = 13;

/// a0 and a1.
const A0: usize = 10;

/// A hart mask, on a page that nothing else is on.
#[repr(C, align(4096))]
struct MaskPage(AtomicUsize, [AtomicUsize; 511]);

static MASK: MaskPage = MaskPage(AtomicUsize::new(0), [const { AtomicUsize::new(0) }; 511]);

pub(super) fn run(machine: &Machine, hart: usize) {
    probes();
    reserved();
    console();
    timer(machine);
    clear_ipi(machine, hart);
    masks(machine, hart);
    unreadable(machine);
    translated_masks(machine, hart);
    others(machine, hart);
    workers::check_all(machine, hart);
}

/// Makes a legacy call, with arguments in a0 to a3. Every other register holds a different
/// number, and must still hold it after the call.
pub(super) fn call(extension: usize, arguments: [usize; 4]) -> Returned {
    let mut x: Registers = core::array::from_fn(|n| {
        usize::try_from(mix(n as u64)).expect("rv64's words have 64 bits")
    });
    x[A0..A0 + 4].copy_from_slice(&arguments);
    x[17] = extension;
    let returned = registers::call(&x);
    let may_change = if returned.has_faulted() {
        &[][..]
    } else {
        &[A0]
    };
    for n in returned.changed(&x, may_change) {
        check!(
            false,
            "legacy call {extension} changes x{n} from {:#x} to {:#x}",
            x[n],
            returned.x[n]
        );
    }
    check!(
        !returned.has_gone_astray(),
        "legacy call {extension} returns where it was made: {returned:x?}"
    );
    returned
}

/// What the call returns in a0; a trap is a failure.
fn value(extension: usize, arguments: [usize; 4]) -> isize {
    let returned = call(extension, arguments);
    check!(
        !returned.has_faulted(),
        "legacy call {extension}: trap {} at {:#x}",
        returned.scause,
        returned.stval
    );
    returned.x[A0].cast_signed()
}

fn check_value(what: &str, extension: usize, arguments: [usize; 4], wanted: isize) {
    let found = value(extension, arguments);
    check!(found == wanted, "{what}: {found}, wanted {wanted}");
}

/// The call faults as the caller's own load from `address` would.
fn check_fault(what: &str, extension: usize, address: usize, cause: usize) {
    let before = read_csr!("sstatus");
    let returned = call(extension, [address, 0, 4096, 0]);
    check!(
        returned.has_faulted() && returned.scause == cause && returned.stval == address,
        "{what}: call {extension} with a mask at {address:#x}: {returned:x?}, wanted cause {cause}"
    );
    const SPP: usize = 1 << 8;
    const SPIE: usize = 1 << 5;
    let after = read_csr!("sstatus");
    check!(
        after == before & !SPIE | SPP,
        "{what}: sstatus is {before:#x}, and {after:#x} after the trap"
    );
}

fn probes() {
    for extension in ALL {
        // SAFETY: this call only asks.
        let answer =
            unsafe { sbi_rt::raw::sbi_call_1(base::EID_BASE, base::PROBE_EXTENSION, extension) };
        let is_there = answer.into_result().is_ok_and(|found| found != 0);
        check!(
            is_there == (extension <= LEGACY_SHUTDOWN),
            "extension {extension} is there: {is_there}"
        );
    }
}

fn reserved() {
    const NOT_SUPPORTED: isize = -2;
    for extension in LEGACY_SHUTDOWN + 1..=0xf {
        check_value("a reserved call", extension, [0; 4], NOT_SUPPORTED);
    }
}

fn console() {
    check_value(
        "a byte, and more above it",
        LEGACY_CONSOLE_PUTCHAR,
        [usize::MAX << 8 | 0x0a, 0, 0, 0],
        0,
    );
    check_value("nothing typed", LEGACY_CONSOLE_GETCHAR, [7; 4], -1);
}

fn timer(machine: &Machine) {
    check_value("a timer long past", LEGACY_SET_TIMER, [0; 4], 0);
    let cause = guard::wait_for_interrupt(TIMER, machine.timebase);
    check!(
        cause == Some(arch::interrupt_cause(TIMER)),
        "it fires at once: {cause:x?}"
    );
    check_value("never", LEGACY_SET_TIMER, [usize::MAX, 0, 0, 0], 0);
    let cause = guard::wait_for_interrupt(TIMER, machine.timebase / 20);
    check!(cause.is_none(), "it does not fire: {cause:x?}");
}

/// Whether an IPI is pending for this hart, which waits for it if it is to come.
fn has_ipi(machine: &Machine, is_to_come: bool) -> bool {
    let end = arch::time() + if is_to_come { machine.timebase } else { 0 };
    loop {
        let is_pending = read_csr!("sip") & SOFTWARE != 0;
        if is_pending || arch::time() >= end {
            return is_pending;
        }
    }
}

fn clear_ipi(machine: &Machine, hart: usize) {
    check_value("no IPI to clear", LEGACY_CLEAR_IPI, [7; 4], 0);
    let mask = sbi_rt::HartMask::from_mask_base(1, hart);
    check!(sbi_rt::send_ipi(mask).is_ok(), "an IPI to this hart");
    check!(has_ipi(machine, true), "it comes");
    check_value("an IPI to clear", LEGACY_CLEAR_IPI, [7; 4], 1);
    check!(!has_ipi(machine, false), "it is cleared");
}

/// Sends this hart an IPI by a mask at that address.
fn check_mask(what: &str, machine: &Machine, address: usize, is_named: bool) {
    check_value(what, LEGACY_SEND_IPI, [address, 0, 0, 0], 0);
    let came = has_ipi(machine, is_named);
    check!(came == is_named, "{what}: an IPI came: {came}");
    write_csr!("sip", 0);
    for extension in &MASKED[1..] {
        check_value(what, *extension, [address, 0x1000, 0x1000, 1], 0);
    }
}

/// Where masks are, when addresses are as they are.
fn own_mask() -> usize {
    MASK.0.as_ptr().expose_provenance()
}

fn masks(machine: &Machine, hart: usize) {
    let at = own_mask();
    for (what, mask, is_named) in [
        ("a mask of this hart", 1 << hart, true),
        ("a mask of nobody", 0, false),
        ("a mask of all bits", usize::MAX, true),
        ("a mask of harts that are not there", 1 << 63, false),
        ("a mask of all but this one", !(1 << hart), false),
    ] {
        MASK.0.store(mask, Ordering::Relaxed);
        check_mask(what, machine, at, is_named);
    }
    check_mask("no mask", machine, 0, true);
    MASK.0.store(1 << hart, Ordering::Relaxed);
    for extension in [LEGACY_REMOTE_SFENCE_VMA, LEGACY_REMOTE_SFENCE_VMA_ASID] {
        for (start, size) in [(0, 0), (0, usize::MAX), (0x1234, usize::MAX), (1, 1)] {
            check_value("a fence", extension, [at, start, size, 1], 0);
        }
        let found = value(extension, [at, usize::MAX, 2, 1]);
        check!(found < 0, "a fence that wraps: {found}");
    }
    // A misaligned mask is read as the caller's own load would.
    MASK.0.store(1 << (hart + 32), Ordering::Relaxed);
    check_mask("a mask between two words", machine, at + 4, true);
}

/// Machine mode's memory, its devices, and addresses without memory.
fn unreadable(machine: &Machine) {
    let own = machine.reserved.iter().map(|range| range.end - 8);
    let devices = machine.machine_devices.iter().map(|(_, address)| *address);
    let addresses = [machine.firmware_address(), machine.ram.end, 1 << 40];
    for address in own.chain(devices).chain(addresses) {
        for extension in MASKED {
            check_fault("unreadable", extension, address, LOAD_FAULT);
        }
    }
}

/// The same with page tables: permissions, SUM and MXR apply as to the caller's own load.
fn translated_masks(machine: &Machine, hart: usize) {
    const PLACE: usize = 1;
    let page = own_mask();
    MASK.0.store(1 << hart, Ordering::Relaxed);
    let map = |flags| {
        let at = map(PLACE, page, flags);
        fence();
        at
    };
    translated::with(|| {
        let at = map(READ);
        check_mask("a mask on a page", machine, at, true);
        check_mask("no mask", machine, 0, true);
        unmap(PLACE);
        fence();
        let refused = |what, flags, bits| {
            let at = map(flags);
            with_status(bits, || {
                check_fault(what, LEGACY_SEND_IPI, at, LOAD_PAGE_FAULT);
            });
        };
        let allowed = |what, flags, bits| {
            let at = map(flags);
            with_status(bits, || check_mask(what, machine, at, true));
        };
        refused("a user's page", READ | USER, 0);
        allowed("a user's page with SUM", READ | USER, SSTATUS_SUM);
        refused("a page that executes", EXECUTE, 0);
        allowed("a page that executes with MXR", EXECUTE, SSTATUS_MXR);
        refused("a user's with MXR", EXECUTE | USER, SSTATUS_MXR);
        unmap(PLACE);
        fence();
        for address in [at, 1 << 38, 1 << 63, usize::MAX - 7] {
            for extension in MASKED {
                check_fault("not mapped", extension, address, LOAD_PAGE_FAULT);
            }
        }
        let firmware = machine.firmware_address();
        check_fault("the firmware's", LEGACY_SEND_IPI, firmware, LOAD_FAULT);
        let page = map(READ);
        // The page of the mask's second half is not mapped.
        let returned = call(LEGACY_SEND_IPI, [page + 4092, 0, 0, 0]);
        check!(
            returned.has_faulted()
                && returned.scause == LOAD_PAGE_FAULT
                && (page + 4092..page + 4100).contains(&returned.stval),
            "across two pages: {returned:x?}"
        );
    });
    check!(!has_ipi(machine, false), "no IPI came of what faulted");
}

/// Runs `job` with these bits of `sstatus`, and no other of the two.
fn with_status(bits: usize, job: impl FnOnce()) {
    let before = read_csr!("sstatus");
    write_csr!("sstatus", before & !(SSTATUS_SUM | SSTATUS_MXR) | bits);
    job();
    write_csr!("sstatus", before);
}

/// Every other hart takes an IPI that its mask asks for, and one that a null mask does.
fn others(machine: &Machine, hart: usize) {
    for other in workers::others(machine, hart) {
        for (mask, address) in [(1 << other, own_mask()), (0, 0)] {
            check!(workers::start(machine, other), "hart {other} starts");
            MASK.0.store(mask, Ordering::Relaxed);
            let send = || check_value("to another", LEGACY_SEND_IPI, [address, 0, 0, 0], 0);
            let took = workers::interrupt_by(machine, other, send);
            check!(took, "hart {other} takes an IPI");
            check!(workers::stop(machine, other), "hart {other} stops");
            write_csr!("sip", 0);
        }
    }
}
