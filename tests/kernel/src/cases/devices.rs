//! State of devices on the memory bus that their drivers do not expect to lose: the power may fail
//! at any instruction, and nothing here may notice.
//!
//! On the command line: `ms=N` milliseconds for each state; `busy=1` for flash in the middle of a
//! command, which no cut keeps; `vf=1` for a PCI function with virtual ones, or `decodes=1` for one
//! that answers at its addresses without access to memory, which no cut keeps either.

use crate::{arch, check, fw_cfg, machine::Machine, memory::Memory, mmio, say, sriov};

/// Commands of flash, of two chips side by side.
const READ_ARRAY: u32 = 0x00ff_00ff;
const READ_STATUS: u32 = 0x0070_0070;
const READ_IDENTITY: u32 = 0x0090_0090;
const QUERY: u32 = 0x0098_0098;
const PROGRAM: u32 = 0x0040_0040;

/// Where the query is asked for, and where its table begins.
const QUERY_AT: usize = 0x55 * 4;
const TABLE: usize = 0x10 * 4;

/// Registers of the clock.
mod clock {
    pub(super) const TIME_LOW: usize = 0;
    pub(super) const TIME_HIGH: usize = 4;
    pub(super) const ALARM_LOW: usize = 8;
    pub(super) const ALARM_HIGH: usize = 0xc;
    pub(super) const IRQ_ENABLED: usize = 0x10;
    pub(super) const ALARM_STATUS: usize = 0x18;
}

pub(super) fn run(machine: &Machine) {
    let bank = machine.flash.last().expect("a bank of flash").start;
    let item = machine.fw_cfg.expect("a configuration device");
    let clock = machine.clock.expect("a clock");
    if machine.number("vf", 0) == 1 {
        sriov::enable(machine);
    }
    if machine.number("decodes", 0) == 1 {
        sriov::decode(machine);
    }
    for (mode, command, at) in [
        ("identity", READ_IDENTITY, 0),
        ("query", QUERY, QUERY_AT),
        ("status", READ_STATUS, 0),
        ("array", READ_ARRAY, 0),
    ] {
        mmio::write32(bank + at, command);
        let flash = || [0, 4, TABLE, TABLE + 4].map(|offset| mmio::read32(bank + offset));
        let before = flash();
        if machine.number("busy", 0) == 1 {
            mmio::write32(bank, READ_ARRAY);
            mmio::write32(bank, PROGRAM);
        }
        let read = fw_cfg::begin(item, 5);
        let alarm = set_alarm(clock);
        let high = begin_to_read(clock);
        say!("devices: flash reads as {mode}");
        let end = machine.in_ms(machine.number("ms", 100) as u64);
        while arch::time() < end {
            core::hint::spin_loop();
        }
        let later = mmio::read32(clock + clock::TIME_HIGH);
        check!(
            later == high,
            "the clock's latch: {later:#x}, not {high:#x}"
        );
        check_alarm(clock, alarm);
        let after = flash();
        check!(
            after == before,
            "flash in mode {mode}: {after:x?}, not {before:x?}"
        );
        fw_cfg::check_goes_on(item, read);
    }
    fw_cfg::check_half(item, Memory::new(machine, 1).last_dense());
    say!("devices: all is as it was");
}

/// An alarm in half an hour that interrupts nobody.
fn set_alarm(clock: usize) -> [u32; 2] {
    // The low half latches the high one.
    mmio::read32(clock + clock::TIME_LOW);
    let high = mmio::read32(clock + clock::TIME_HIGH);
    let alarm = [0x1234_5678, high + 0x200];
    mmio::write32(clock + clock::IRQ_ENABLED, 0);
    mmio::write32(clock + clock::ALARM_HIGH, alarm[1]);
    mmio::write32(clock + clock::ALARM_LOW, alarm[0]);
    alarm
}

fn check_alarm(clock: usize, alarm: [u32; 2]) {
    let found =
        [clock::ALARM_LOW, clock::ALARM_HIGH].map(|register| mmio::read32(clock + register));
    check!(found == alarm, "the alarm: {found:x?}, not {alarm:x?}");
    let (enabled, running) = (
        mmio::read32(clock + clock::IRQ_ENABLED),
        mmio::read32(clock + clock::ALARM_STATUS),
    );
    check!(
        (enabled, running) == (0, 1),
        "the alarm's interrupt {enabled}, its status {running}"
    );
}

/// Reads the low half of the time; returns the high one, which is not asked again.
fn begin_to_read(clock: usize) -> u32 {
    loop {
        let before = (
            mmio::read32(clock + clock::TIME_LOW),
            mmio::read32(clock + clock::TIME_HIGH),
        );
        let low = mmio::read32(clock + clock::TIME_LOW);
        // It has not run over between the two.
        if low >= before.0 {
            return before.1;
        }
    }
}
