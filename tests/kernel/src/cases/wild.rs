//! A hostile next stage: its accesses and calls must neither reach the firmware's memory nor bring
//! the machine down.

use super::calls::fence;
use crate::{
    arch::{self, guard},
    check, irqchip,
    machine::Machine,
    mmio,
    verdict::check_error,
    workers,
};
use sbi_rt::raw::{sbi_call_1, sbi_call_3};
use sbi_spec::{
    binary::{Error, Error::*, SbiRet},
    dbcn, rfnc, time,
};

pub(super) fn run(machine: &Machine, hart: usize) {
    // What is closed is closed on each hart by itself.
    let closed = || {
        firmware_memory(machine);
        machine_devices(machine);
    };
    workers::with_all(machine, hart, &closed, |all| all());
    generation_id(machine);
    machine_contexts(machine);
    flash(machine);
    console(machine);
    fences(machine);
    last_fences();
    timer(machine);
    workers::check_all(machine, hart);
}

/// Addresses all over the firmware's memory.
fn firmware_addresses(machine: &Machine) -> impl Iterator<Item = usize> + '_ {
    let edges = machine.reserved.iter().flat_map(|range| {
        let middle = range.start + range.len() / 2;
        [range.start, middle & !7, range.end - 8]
    });
    let readable = |address: &usize| {
        let id = machine.generation_id.as_ref();
        id.is_some_and(|id| address / PAGE == id.place.start / PAGE)
    };
    core::iter::once(machine.firmware_address())
        .chain(edges)
        .filter(move |address| !readable(address))
}

fn firmware_memory(machine: &Machine) {
    check!(
        machine
            .reserved
            .iter()
            .any(|range| range.contains(&machine.firmware_address())),
        "the device tree reserves the firmware's memory: {:x?}",
        machine.reserved
    );
    for address in firmware_addresses(machine) {
        check_unreadable("the firmware", address);
        check_read_only("the firmware", address, 0);
    }
    let csr = guard::read_machine_csr();
    check!(
        csr == Some(guard::ILLEGAL_INSTRUCTION),
        "read mstatus: {csr:?}"
    );
}

/// Loads from the firmware's memory and stores to it fault.
pub(super) fn closed_data(machine: &Machine) {
    for address in firmware_addresses(machine) {
        check_unreadable("the firmware", address);
        check_no_store("the firmware", address, 0);
    }
}

/// Loads from devices of machine mode and stores to them fault.
pub(super) fn closed_devices(machine: &Machine) {
    for &(name, address) in &machine.machine_devices {
        check_unreadable(name, address);
        check_no_store(name, address, 0);
    }
}

/// A load of what is at `address` faults.
fn check_unreadable(what: &str, address: usize) {
    // Devices take loads of 32 bits; memory takes all.
    let load = guard::load32(address);
    check!(
        load == Some(guard::LOAD_FAULT),
        "{what}: load from {address:#x}: {load:?}"
    );
}

/// A store of `value` to `address` faults.
fn check_no_store(what: &str, address: usize, value: u32) {
    let store = guard::store32(address, value);
    check!(
        store == Some(guard::STORE_FAULT),
        "{what}: store to {address:#x}: {store:?}"
    );
}

/// Stores to `address` fault, and jumps to it.
fn check_read_only(what: &str, address: usize, value: u32) {
    check_no_store(what, address, value);
    let fetch = guard::fetch(address);
    check!(
        fetch == Some(guard::FETCH_FAULT),
        "{what}: fetch from {address:#x}: {fetch:?}"
    );
}

const PAGE: usize = 4096;

/// The generation ID's page can be read, and no more; what lies around it not
/// even that.
fn generation_id(machine: &Machine) {
    check!(
        machine.generation_id.is_some() == machine.aplic.is_some(),
        "a generation ID with an APLIC, and only then: {:x?}",
        machine.generation_id
    );
    let Some(id) = &machine.generation_id else {
        return;
    };
    let page = id.place.start / PAGE * PAGE;
    let before = id.read();
    for address in [page, id.place.end - 8, page + PAGE - 8] {
        let load = guard::load64(address);
        check!(load.is_none(), "load from {address:#x}: {load:?}");
        check_read_only("the generation ID", address, 0);
    }
    for address in [page - 8, page + PAGE] {
        check_unreadable("what lies beside the generation ID", address);
    }
    check!(id.read() == before, "the generation ID is as it was");
}

fn machine_devices(machine: &Machine) {
    // After the firmware took machine mode's nodes out of the device tree,
    // there may be nothing left to name here: then only the CLINT's usual
    // place is tried, which every `virt` machine without IMSICs has.
    check!(
        machine.uart != 0 && guard::load32(machine.harmless_register()).is_none(),
        "S-mode's devices are open"
    );
    // Of these the device tree does not tell any more.
    for address in machine
        .option("closed")
        .into_iter()
        .flat_map(|list| list.split(','))
    {
        let address =
            usize::from_str_radix(address, 16).expect("closed= has hexadecimal addresses");
        check_unreadable("what the command line names", address);
        check_no_store("what the command line names", address, 0);
    }
    for &(name, address) in &machine.machine_devices {
        check_unreadable(name, address);
        check_no_store(name, address, 0);
    }
}

/// S-mode enables a pending source of the PLIC's for machine mode, on every hart, with the
/// highest priority: where PMP closes these registers, in vain. With `open=1` on the command
/// line nothing does, and machine mode is not interrupted by it again and again, or this
/// would not go on.
pub(super) fn machine_contexts(machine: &Machine) {
    const ENABLE: usize = 0x2000;
    const THRESHOLD: usize = 0x20_0000;
    let Some(plic) = machine.plic else { return };
    mmio::write32(plic + 4 * machine.uart_interrupt, 7);
    // The last one is S-mode's of the last hart.
    let last = machine.plic_contexts.iter().max().copied();
    for context in 0..last.unwrap_or(0) {
        if machine.plic_contexts.contains(&context) {
            continue;
        }
        mmio::write32(plic + THRESHOLD + context * 0x1000, 0);
        let enable = plic + ENABLE + context * 0x80;
        if machine.number("open", 0) == 1 {
            mmio::write32(enable, 1 << machine.uart_interrupt);
        } else {
            check_unreadable("machine mode's context", enable);
            check_no_store(
                "machine mode's context",
                enable,
                1 << machine.uart_interrupt,
            );
            check_no_store("machine mode's context", enable + 0x7c, 1);
        }
    }
    for context in &machine.plic_contexts {
        let enable = plic + ENABLE + context * 0x80;
        let before = mmio::read32(enable);
        mmio::write32(enable, before ^ 2);
        let after = mmio::read32(enable);
        check!(
            after == before ^ 2,
            "the OS's enables: {before:#x}, {after:#x}"
        );
        mmio::write32(enable, before);
    }
    irqchip::raise_console(machine);
    let end = arch::time() + machine.timebase / 10;
    while arch::time() < end {}
    check!(true, "the machine runs on");
}

/// With `vault=ADDRESS` (hexadecimal) on the command line, the flash bank there
/// is the firmware's; without it, all flash is open.
fn flash(machine: &Machine) {
    let Some(vault) = machine.option("vault") else {
        for bank in &machine.flash {
            let load = guard::load32(bank.end - 4);
            check!(load.is_none(), "load from flash {bank:x?}: {load:?}");
        }
        return;
    };
    let vault = usize::from_str_radix(vault, 16).expect("vault= is a hexadecimal address");
    // The rest of a bank that it shares is the OS's.
    let shares = machine.option("vault_bytes").is_some();
    check!(
        machine.flash.iter().any(|bank| bank.contains(&vault)) == shares,
        "the vault's flash is out of sight: {:x?}",
        machine.flash
    );
    for bank in &machine.flash {
        let load = guard::load32(bank.start);
        check!(load.is_none(), "load from flash {bank:x?}: {load:?}");
    }
    let length = machine.number("vault_bytes", 32 << 20);
    for address in [vault, vault + length / 2, vault + length - 4] {
        check_unreadable("the vault", address);
        // "Read array": harmless where it gets through.
        check_read_only("the vault", address, 0x00ff_00ff);
    }
}

fn write(bytes: usize, low: usize, high: usize) -> SbiRet {
    // SAFETY: writing to the console reads memory only.
    unsafe { sbi_call_3(dbcn::EID_DBCN, dbcn::CONSOLE_WRITE, bytes, low, high) }
}

fn read(bytes: usize, low: usize, high: usize) -> SbiRet {
    // SAFETY: called with memory that is not ours, where no byte may arrive.
    unsafe { sbi_call_3(dbcn::EID_DBCN, dbcn::CONSOLE_READ, bytes, low, high) }
}

fn console(machine: &Machine) {
    let refused: &[Error] = &[InvalidParam];
    let own = arch::image().start;
    let firmware = machine.firmware_address();
    let claims = [
        ("all memory there is", usize::MAX, own, 0),
        ("a range that wraps", usize::MAX - own + 2, own, 0),
        ("from the firmware's memory", 16, firmware, 0),
        ("across the end of memory", 4096, machine.ram.end - 16, 0),
        ("beyond memory", 16, machine.ram.end, 0),
        ("at the last address", 1, usize::MAX, 0),
        ("at address zero", 16, 0, 0),
        ("from a device", 16, machine.uart, 0),
        ("above 64 bits", 16, own, 1),
        ("far above 64 bits", 16, own, usize::MAX),
    ];
    for (what, bytes, low, high) in claims {
        check_error(what, write(bytes, low, high), refused);
        check_error(what, read(bytes, low, high), refused);
    }
    for range in &machine.reserved {
        // From our memory into the firmware's, or the other way round.
        let below = range.start.wrapping_sub(8);
        check_error("into the firmware's memory", read(4096, below, 0), refused);
        check_error(
            "into the firmware's memory",
            read(8, range.end - 8, 0),
            refused,
        );
        check_error(
            "out of the firmware's memory",
            read(16, range.end - 8, 0),
            refused,
        );
    }
    let nothing = write(0, own, 0).into_result();
    check!(nothing == Ok(0), "writing nothing: {nothing:?}");
    // SAFETY: the call takes a byte, of which all but eight bits are ignored.
    let byte = unsafe {
        sbi_call_1(
            dbcn::EID_DBCN,
            dbcn::CONSOLE_WRITE_BYTE,
            usize::MAX << 8 | 0x0a,
        )
    };
    check!(byte.is_ok(), "a byte with more above it: {byte:?}");
}

/// The last page of all addresses.
const LAST_PAGE: usize = usize::MAX & !(PAGE - 1);

/// Fences up to the last address end. They are few pages, counted by sums that a
/// machine's words have no room for; a firmware that loses its count fences every
/// page there is, which takes weeks.
fn last_fences() {
    let (mask, first) = (0, usize::MAX);
    for (start, size) in [
        (LAST_PAGE, PAGE - 1),
        (LAST_PAGE, PAGE),
        (LAST_PAGE + 1, 1),
        (usize::MAX, 1),
        (LAST_PAGE - PAGE, 2 * PAGE - 1),
        (LAST_PAGE - PAGE, 2 * PAGE),
    ] {
        for function in [rfnc::REMOTE_SFENCE_VMA, rfnc::REMOTE_SFENCE_VMA_ASID] {
            let answer = fence(function, mask, first, start, size).into_result();
            check!(answer == Ok(0), "fence {start:#x}+{size:#x}: {answer:?}");
        }
    }
    for (start, size) in [(LAST_PAGE, PAGE + 1), (usize::MAX, 2), (3, usize::MAX - 1)] {
        let answer = fence(rfnc::REMOTE_SFENCE_VMA, mask, first, start, size);
        check_error("a fence that wraps", answer, &[InvalidAddress]);
    }
}

fn fences(machine: &Machine) {
    let (mask, first) = (1, machine.harts[0]);
    let ranges = [
        (LAST_PAGE, 0x10_000),
        (0, usize::MAX),
        (usize::MAX, usize::MAX),
        (1, 1),
    ];
    for (start, size) in ranges {
        for function in [rfnc::REMOTE_SFENCE_VMA, rfnc::REMOTE_SFENCE_VMA_ASID] {
            let answer = fence(function, mask, first, start, size).into_result();
            let held = matches!(answer, Ok(_) | Err(InvalidAddress));
            check!(held, "fence {start:#x}+{size:#x}: {answer:?}");
        }
        for function in [rfnc::REMOTE_HFENCE_GVMA, rfnc::REMOTE_HFENCE_VVMA] {
            let answer = fence(function, mask, first, start, size).into_result();
            let held = matches!(answer, Ok(_) | Err(InvalidAddress | NotSupported));
            check!(held, "hypervisor fence {start:#x}+{size:#x}: {answer:?}");
        }
    }
}

fn timer(machine: &Machine) {
    // SAFETY: the timer is ours.
    let set = |at: usize| unsafe { sbi_call_1(time::EID_TIME, time::SET_TIMER, at) };
    check!(set(0).is_ok(), "a timer long past");
    let cause = guard::wait_for_interrupt(arch::TIMER, machine.timebase);
    check!(
        cause == Some(arch::interrupt_cause(arch::TIMER)),
        "it fires at once: {cause:x?}"
    );
    check!(set(usize::MAX).is_ok(), "a timer that never fires");
    let cause = guard::wait_for_interrupt(arch::TIMER, machine.timebase / 20);
    check!(cause.is_none(), "it does not fire: {cause:x?}");
    check!(
        mmio::read32(machine.harmless_register()) != u32::MAX,
        "the machine runs on"
    );
}
