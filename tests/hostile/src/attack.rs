//! The attacks: accesses to foreign addresses, SBI calls with foreign arguments, forged interrupts.

use poorwill_bare::hart::time;
use sbi_rt::{HartMask, Physical, SbiRet};
use sbi_spec::binary::{RET_ERR_INVALID_ADDRESS, RET_ERR_INVALID_PARAM};

use crate::orders::Orders;
use crate::output::say;
use crate::probe::{INSTRUCTION_FAULT, LOAD_FAULT, STORE_FAULT, execute, load, read, store, write};
use crate::{aplic, disk, dma};

/// Time for a line, in units of 100 ns.
const LINE: u64 = 50_000;

/// Runs all attacks, and says how they end.
pub(crate) fn run(orders: &Orders, addresses: &[u64]) {
    let mut failed = 0;
    for address in addresses {
        failed += accesses(*address);
    }
    if execute(orders.aplic) != Some(INSTRUCTION_FAULT) {
        say(format_args!(
            "FAIL: the domain's own registers can be executed"
        ));
        failed += 1;
    }
    failed += calls(orders);
    failed += dma::run(orders, addresses);
    aplic::send_everywhere(orders.aplic);
    let tried = addresses.len();
    say(format_args!(
        "{} {tried} addresses",
        if failed == 0 { "attacked" } else { "FAIL" }
    ));
}

/// Runs the attacks that need no device, and says how they end.
pub(crate) fn without_device(orders: &Orders, addresses: &[u64]) {
    let mut failed = calls(orders);
    for address in addresses {
        failed += accesses(*address);
    }
    aplic::send_everywhere(orders.aplic);
    let tried = addresses.len();
    say(format_args!(
        "{} {tried} addresses without a device",
        if failed == 0 { "attacked" } else { "FAIL" }
    ));
}

/// Attacks by a disk alone, and says how it ends.
pub(crate) fn by_disk(orders: &Orders, addresses: &[u64]) {
    let failed = disk::run(orders, addresses);
    let tried = addresses.len();
    say(format_args!(
        "{} {tried} addresses by a disk",
        if failed == 0 { "attacked" } else { "FAIL" }
    ));
}

/// Says for each address which accesses fault, and with which cause.
pub(crate) fn survey(addresses: &[u64]) {
    for address in addresses {
        let causes = [load(*address), store(*address), execute(*address)];
        say(format_args!("probe {address:#x} {causes:?}"));
        // A domain's lines wait for the console, in little room. Each call sends a part of them.
        let end = time() + LINE;
        while time() < end {
            sbi_rt::get_spec_version();
        }
    }
    say(format_args!("probed"));
}

/// Number of accesses to an address that do not fault.
fn accesses(address: u64) -> usize {
    let all = [
        ("load", load(address), LOAD_FAULT),
        ("store", store(address), STORE_FAULT),
        ("execute", execute(address), INSTRUCTION_FAULT),
    ];
    let mut failed = 0;
    for (access, cause, expected) in all {
        if cause != Some(expected) {
            say(format_args!("FAIL: {access} at {address:#x}: {cause:?}"));
            failed += 1;
        }
    }
    failed
}

/// Number of SBI calls that are not refused as they must be.
fn calls(orders: &Orders) -> usize {
    let hart = orders.foreign_hart as usize;
    let mask = || HartMask::from_mask_base(1, hart);
    let memory = orders.foreign_memory as usize;
    let all: [(&str, SbiRet, usize); 10] = [
        (
            "hart_start",
            sbi_rt::hart_start(hart, run as *const () as usize, 0),
            RET_ERR_INVALID_PARAM,
        ),
        (
            "hart_get_status",
            sbi_rt::hart_get_status(hart),
            RET_ERR_INVALID_PARAM,
        ),
        ("send_ipi", sbi_rt::send_ipi(mask()), RET_ERR_INVALID_PARAM),
        (
            "fence_i",
            sbi_rt::remote_fence_i(mask()),
            RET_ERR_INVALID_PARAM,
        ),
        (
            "sfence_vma",
            sbi_rt::remote_sfence_vma(mask(), 0, 0),
            RET_ERR_INVALID_PARAM,
        ),
        (
            "sfence_vma_asid",
            sbi_rt::remote_sfence_vma_asid(mask(), 0, 0, 1),
            RET_ERR_INVALID_PARAM,
        ),
        (
            "console_write",
            sbi_rt::console_write(Physical::new(8, memory, 0)),
            RET_ERR_INVALID_PARAM,
        ),
        (
            "console_read",
            sbi_rt::console_read(Physical::new(8, memory, 0)),
            RET_ERR_INVALID_PARAM,
        ),
        (
            "system_suspend",
            sbi_rt::system_suspend(sbi_rt::SuspendToRam, memory, 0),
            RET_ERR_INVALID_ADDRESS,
        ),
        (
            "hart_suspend",
            sbi_rt::hart_suspend(sbi_rt::NonRetentive, memory, 0),
            RET_ERR_INVALID_ADDRESS,
        ),
    ];
    let mut failed = 0;
    for (call, answer, expected) in all {
        if answer.error != expected {
            say(format_args!("FAIL: {call} answers {:#x}", answer.error));
            failed += 1;
        }
    }
    failed
}

/// Registers of the goldfish clock: the time's halves, the alarm's, its enable, its state.
const TIME: [u64; 2] = [0, 4];
const ALARM: [u64; 4] = [0xc, 8, 0x10, 0x18];
/// A time in 2020, in units of 2^32 ns.
const YEAR_2020: u32 = 367_000_000;

/// Reads the clock's time, and tries to set its alarm.
pub(crate) fn clock(address: u64) {
    let now = || {
        let [low, high] = TIME.map(|half| read(address + half));
        u64::from(high) << 32 | u64::from(low)
    };
    let before = now();
    for register in ALARM {
        write(address + register, 1);
    }
    let alarm = ALARM.map(|register| read(address + register));
    let after = now();
    if after > before && before >> 32 > u64::from(YEAR_2020) && alarm == [0; 4] {
        say(format_args!("clock: the time alone"));
    } else {
        say(format_args!("FAIL: clock {before} {after} {alarm:?}"));
    }
}

/// Calls that each end in lines, as fast as they come.
pub(crate) fn flood() {
    for number in 0_u64.. {
        say(format_args!("flood {number}"));
        let answer = sbi_rt::system_suspend(Unknown, 0, 0);
        if answer.error != RET_ERR_INVALID_PARAM {
            return say(format_args!(
                "FAIL: system_suspend answers {:#x}",
                answer.error
            ));
        }
    }
}

/// A reserved sleep type (SBI 3.0, table 13.2).
struct Unknown;

impl sbi_rt::SleepType for Unknown {
    fn raw(&self) -> u32 {
        0x77
    }
}

/// Asks for a reset of the machine, without the right to it: this ends the domain.
pub(crate) fn reset() {
    say(format_args!("asks for a reset"));
    let answer = sbi_rt::system_reset(sbi_rt::ColdReboot, sbi_rt::NoReason);
    say(format_args!(
        "FAIL: system_reset answers {:#x}",
        answer.error
    ));
}
