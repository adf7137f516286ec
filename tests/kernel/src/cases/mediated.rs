//! QEMU's configuration device, which machine mode accesses for the OS: all valid accesses, and
//! invalid ones.

use crate::{
    arch::{
        guard::{self, LOAD_FAULT, STORE_FAULT},
        guest, translated,
    },
    check, fw_cfg,
    machine::Machine,
    mmio, say, workers,
};
use core::arch::asm;

/// What the device has where requests are written to: "QEMU CFG", big-endian.
const SIGNATURE: u64 = 0x5145_4d55_2043_4647;
const REQUEST: usize = 0x10;
/// Nothing is there, though it is on the same page.
const NOTHING: usize = 0x800;

/// A page fault of a fetch or a load.
const FETCH_PAGE_FAULT: usize = 12;
const LOAD_PAGE_FAULT: usize = 13;

pub(super) fn run(machine: &Machine, hart: usize) {
    let device = machine.fw_cfg.expect("every machine of QEMU's has one");
    loads(device);
    refused(device);
    requests(machine, device);
    hostile_requests(machine, device);
    translated(machine, device);
    if guest::is_there() {
        guests(machine, device);
    }
    cost(machine, device);
    workers::check_all(machine, hart);
}

/// Each form of load of the request register, by the bytes that it has in memory.
fn loads(device: usize) {
    let bytes = SIGNATURE.to_be_bytes();
    let at = device + REQUEST;
    let expected_64 = usize::from_le_bytes(bytes);
    let expected_32 = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let expected_16 = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    macro_rules! load {
        ($instruction:literal, $expected:expr) => {{
            let value: usize;
            // SAFETY: a load from a device's register, by whatever base it is.
            unsafe {
                asm!(
                    "mv t1, sp",
                    "mv sp, {at}",
                    concat!($instruction),
                    "mv sp, t1",
                    at = in(reg) at,
                    in("a1") at,
                    lateout("a2") value,
                    out("t1") _,
                )
            };
            check!(value == $expected, "{}: {value:#x}, not {:#x}", $instruction, $expected);
        }};
    }
    load!("ld a2, 0(a1)", expected_64);
    load!("lwu a2, 0(a1)", expected_32 as usize);
    load!("lw a2, 0(a1)", expected_32 as i32 as usize);
    load!("lhu a2, 0(a1)", expected_16);
    load!("lh a2, 0(a1)", expected_16);
    load!("lbu a2, 1(a1)", usize::from(bytes[1]));
    load!("lb a2, 7(a1)", usize::from(bytes[7]));
    load!(
        ".option push\n.option rvc\nc.ld a2, 0(a1)\n.option pop",
        expected_64
    );
    load!(
        ".option push\n.option rvc\nc.lw a2, 0(a1)\n.option pop",
        expected_32 as usize
    );
    load!(
        ".option push\n.option rvc\nc.ldsp a2, 0(sp)\n.option pop",
        expected_64
    );
    load!(
        ".option push\n.option rvc\nc.lwsp a2, 0(sp)\n.option pop",
        expected_32 as usize
    );
    // To nowhere.
    check!(guard::load_nowhere(at).is_none(), "a load to x0");
}

/// What no register takes.
fn refused(device: usize) {
    let at = device + REQUEST;
    for (what, found, expected) in [
        ("a misaligned load", guard::load64(at - 4), LOAD_FAULT),
        ("a misaligned store", guard::store32(at + 2, 0), STORE_FAULT),
        ("an AMO", guard::amo32(at), STORE_FAULT),
        ("a reserving load", guard::reserve32(at), LOAD_FAULT),
        (
            "a load of nothing",
            guard::load32(device + NOTHING),
            LOAD_FAULT,
        ),
        (
            "a store to nothing",
            guard::store32(device + NOTHING, 0),
            STORE_FAULT,
        ),
    ] {
        check!(found == Some(expected), "{what}: {found:?}");
    }
    let stval = guard::last_address();
    check!(stval == device + NOTHING, "stval is {stval:#x}");
}

fn requests(machine: &Machine, device: usize) {
    let by_register = fw_cfg::count(device);
    for by_halves in [false, true] {
        let mut count = [0xff; 4];
        let target = count.as_mut_ptr().expose_provenance();
        let control = fw_cfg::request(device, fw_cfg::READ_DIRECTORY, 4, target, by_halves);
        let found = u32::from_be_bytes(count);
        check!(
            control == 0 && found == by_register,
            "a request, by halves: {by_halves}: control {control:#x}, {found} files, not {by_register}"
        );
    }
    let end = machine.ram.end;
    let control = fw_cfg::request(device, fw_cfg::READ_DIRECTORY, 4, end - 4, false);
    check!(control == 0, "to the last bytes of memory: {control:#x}");
}

/// Requests for memory that is not ours. Where one got through, machine mode would be
/// overwritten, and this would not go on for long.
fn hostile_requests(machine: &Machine, device: usize) {
    let firmware = machine.firmware_address();
    let ends = machine
        .reserved
        .iter()
        .flat_map(|range| [range.start, range.end - 64]);
    let targets = [
        firmware,
        machine.ram.end - 32,
        machine.ram.end,
        0,
        usize::MAX - 63,
    ];
    for target in targets.into_iter().chain(ends) {
        for control in [fw_cfg::READ_DIRECTORY, fw_cfg::WRITE_DIRECTORY] {
            for by_halves in [false, true] {
                let left = fw_cfg::request(device, control, 64, target, by_halves);
                check!(
                    left == fw_cfg::ERROR,
                    "{control:#x} at {target:#x}: {left:#x}"
                );
            }
        }
    }
    let below = machine.reserved[0].start.wrapping_sub(32);
    let left = fw_cfg::request(device, fw_cfg::READ_DIRECTORY, 64, below, false);
    check!(
        left == fw_cfg::ERROR,
        "across the firmware's edge: {left:#x}"
    );
    for place in [firmware, machine.ram.end - 8, 0, usize::MAX - 15] {
        fw_cfg::request_at(device, place);
    }
    let mut word = [0; 4];
    let target = word.as_mut_ptr().expose_provenance();
    let left = fw_cfg::request(device, fw_cfg::READ_DIRECTORY, 4, target, false);
    check!(left == 0, "a request afterwards: {left:#x}");
}

/// With page tables, whose pages are taken away meanwhile.
fn translated(machine: &Machine, device: usize) {
    use translated::{EXECUTE, READ, USER, fence, load_by, map, unmap};
    const CODE: usize = 0;
    const DEVICE: usize = 1;
    let expected = Ok(usize::from_le_bytes(SIGNATURE.to_be_bytes()));
    let own = translated::page_of_code();
    translated::with(|| {
        let code = map(CODE, own, EXECUTE);
        let registers = map(DEVICE, device, READ);
        fence();
        let found = load_by(code, registers + REQUEST);
        check!(
            found == expected,
            "by pages that only execute, and only read: {found:x?}"
        );
        let found = load_by(code, machine.firmware_address());
        check!(
            found == Err(LOAD_FAULT),
            "the firmware's memory: {found:x?}"
        );
        // The hart may go on with what it knows; machine mode looks anew.
        for (what, number, page_fault) in [
            ("code", CODE, FETCH_PAGE_FAULT),
            ("the device", DEVICE, LOAD_PAGE_FAULT),
        ] {
            let before = load_by(code, registers + REQUEST);
            unmap(number);
            let after = load_by(code, registers + REQUEST);
            check!(
                before == expected && [Err(LOAD_FAULT), Err(page_fault)].contains(&after),
                "the page of {what} is taken away: {after:x?}"
            );
            fence();
            let later = load_by(code, registers + REQUEST);
            check!(later == Err(page_fault), "{what} is gone: {later:x?}");
            map(CODE, own, EXECUTE);
            map(DEVICE, device, READ);
            fence();
        }
        map(DEVICE, device, READ | USER);
        fence();
        let found = load_by(code, registers + REQUEST);
        check!(found == Err(LOAD_PAGE_FAULT), "a user's page: {found:x?}");
    });
}

/// As a hypervisor and its guest.
fn guests(machine: &Machine, device: usize) {
    use guest::{GUEST_CALL, HSTATUS_GVA, HSTATUS_SPV};
    let at = device + REQUEST;
    let ended = guest::load(at);
    let expected = usize::from_le_bytes(SIGNATURE.to_be_bytes());
    check!(
        ended.scause == GUEST_CALL && ended.a0 == expected,
        "a guest's load: {ended:x?}"
    );
    let from_guest = HSTATUS_SPV | HSTATUS_GVA;
    let firmware = machine.firmware_address();
    let [load, store] = guest::places();
    for (ended, cause, place) in [
        (guest::load(firmware), LOAD_FAULT, load),
        (guest::store(firmware), STORE_FAULT, store),
    ] {
        check!(
            ended.scause == cause
                && ended.stval == firmware
                && ended.sepc == place
                && ended.hstatus & from_guest == from_guest,
            "a guest's fault {cause}: {ended:x?}"
        );
    }
    guest::delegate(1 << LOAD_FAULT);
    let ended = guest::load(firmware);
    check!(
        ended.scause == GUEST_CALL && ended.a0 == LOAD_FAULT,
        "its own fault: {ended:x?}"
    );
    let ended = guest::store(firmware);
    check!(ended.scause == STORE_FAULT, "not its own: {ended:x?}");
    guest::delegate(0);
}

/// What an access costs.
fn cost(machine: &Machine, device: usize) {
    const LOADS: u64 = 1000;
    let began = crate::arch::time();
    for _ in 0..LOADS {
        mmio::read32(device + REQUEST);
    }
    let ticks = crate::arch::time() - began;
    say!(
        "mediated: ns_per_load={}",
        ticks * 1_000_000_000 / machine.timebase / LOADS
    );
}
