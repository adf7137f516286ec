//! The goldfish real-time clock.

use crate::{machine::Machine, mmio};

mod register {
    pub(super) const TIME_LOW: usize = 0;
    pub(super) const TIME_HIGH: usize = 4;
    pub(super) const ALARM_LOW: usize = 8;
    pub(super) const ALARM_HIGH: usize = 0xc;
    pub(super) const IRQ_ENABLED: usize = 0x10;
    pub(super) const ALARM_STATUS: usize = 0x18;
    pub(super) const CLEAR_ALARM: usize = 0x14;
    pub(super) const CLEAR_INTERRUPT: usize = 0x1c;
}

/// Nanoseconds since 1970, of the clock at `clock`.
pub(crate) fn read(clock: usize) -> u64 {
    // Reading the low half latches the high half.
    let low = mmio::read32(clock + register::TIME_LOW);
    let high = mmio::read32(clock + register::TIME_HIGH);
    u64::from(high) << 32 | u64::from(low)
}

/// Sets the alarm so many milliseconds ahead, as Linux's driver does. The clock's
/// interrupt is not enabled at its controller.
///
/// # Panics
/// If the machine has no clock.
pub(crate) fn set_alarm(machine: &Machine, ms: u64) {
    let clock = machine.clock.expect("a real-time clock");
    let at = read(clock) + ms * 1_000_000;
    mmio::write32(clock + register::ALARM_HIGH, (at >> 32) as u32);
    mmio::write32(clock + register::ALARM_LOW, (at & 0xffff_ffff) as u32);
    mmio::write32(clock + register::IRQ_ENABLED, 1);
}

/// The alarm's registers: the time, whether it may interrupt, whether it is to come.
///
/// # Panics
/// If the machine has no clock.
pub(crate) fn alarm(machine: &Machine) -> [u32; 4] {
    let clock = machine.clock.expect("a real-time clock");
    [
        register::ALARM_LOW,
        register::ALARM_HIGH,
        register::IRQ_ENABLED,
        register::ALARM_STATUS,
    ]
    .map(|register| mmio::read32(clock + register))
}

/// Takes notice of the alarm.
///
/// # Panics
/// If the machine has no clock.
pub(crate) fn end_alarm(machine: &Machine) {
    let clock = machine.clock.expect("a real-time clock");
    for register in [register::CLEAR_ALARM, register::CLEAR_INTERRUPT] {
        mmio::write32(clock + register, 1);
    }
    mmio::write32(clock + register::IRQ_ENABLED, 0);
}
