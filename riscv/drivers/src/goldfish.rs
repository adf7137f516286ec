//! The goldfish real-time clock, which runs while the power is off (Android's
//! GOLDFISH-VIRTUAL-HARDWARE, "Goldfish real-time clock").

use poorwill_memory::{PAGE_BYTES, PhysRange};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Registers;
use crate::mediated::{CallerMemory, Mediator, RegisterAccess, Ruling};

/// Register offsets. A 64-bit value has two registers; a read of the time's low half latches the
/// high half.
mod register {
    pub(super) const TIME_LOW: u64 = 0;
    pub(super) const TIME_HIGH: u64 = 4;
    pub(super) const ALARM_LOW: u64 = 8;
    pub(super) const ALARM_HIGH: u64 = 0xc;
    pub(super) const IRQ_ENABLED: u64 = 0x10;
    /// Cancels the alarm.
    pub(super) const CLEAR_ALARM: u64 = 0x14;
    /// The alarm is set and not yet due.
    pub(super) const ALARM_STATUS: u64 = 0x18;
    /// Acknowledges the interrupt.
    pub(super) const CLEAR_INTERRUPT: u64 = 0x1c;
}

/// Nanoseconds (10 ms) before an overflow of the time's low half that count as near.
const NEAR_OVERFLOW: u32 = 10_000_000;

/// Maximum number of clock reads while waiting for the overflow. A read takes at least 20 ns.
const MAX_READS: u32 = NEAR_OVERFLOW / 20;

/// The OS's settings, and its latched half of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RtcState {
    alarm: u64,
    /// The last latched high half of the time: the OS may have read only the low half.
    latch: u32,
    is_enabled: u8,
    /// The alarm is not yet due.
    is_running: u8,
    _unused: [u8; 2],
}

impl RtcState {
    /// The settings on which a suspended OS relies: an alarm that is not yet due, and whether it may
    /// interrupt. `None`: the clock has the same after a power-on.
    #[must_use]
    pub fn of_suspended(self) -> Option<Self> {
        let alarm = if self.is_running == 0 { 0 } else { self.alarm };
        let state = RtcState {
            alarm,
            latch: 0,
            ..self
        };
        (state.is_running != 0 || state.is_enabled != 0).then_some(state)
    }
}

/// A goldfish RTC. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct GoldfishRtc<R>(R);

impl<R: Registers<u32>> GoldfishRtc<R> {
    /// The clock behind these registers.
    pub fn new(registers: R) -> Self {
        GoldfishRtc(registers)
    }

    /// The time now.
    pub fn now_ns(&self) -> u64 {
        self.read_halves(register::TIME_LOW, register::TIME_HIGH)
    }

    /// Nanoseconds until the alarm is due, 0 if it is overdue and unacknowledged; `None` without an
    /// alarm.
    pub fn alarm_in_ns(&self) -> Option<u64> {
        let alarm = self.alarm_ns()?;
        Some(alarm.saturating_sub(self.now_ns()))
    }

    fn alarm_ns(&self) -> Option<u64> {
        let alarm = self.read_halves(register::ALARM_LOW, register::ALARM_HIGH);
        (self.0.read(register::IRQ_ENABLED) != 0 && alarm != 0).then_some(alarm)
    }

    /// Captures the OS's state. Must precede all of the firmware's reads of the time, which change
    /// the latch.
    pub fn capture(&self) -> RtcState {
        RtcState {
            latch: self.0.read(register::TIME_HIGH),
            alarm: self.read_halves(register::ALARM_LOW, register::ALARM_HIGH),
            is_enabled: (self.0.read(register::IRQ_ENABLED) != 0).into(),
            is_running: (self.0.read(register::ALARM_STATUS) != 0).into(),
            _unused: [0; 2],
        }
    }

    /// Restores the state, except for the [latch](Self::put_back_latch). An overdue alarm that may
    /// interrupt becomes due again: no register shows whether the OS has acknowledged it. One that
    /// may not interrupt is restored as it was, not due.
    #[allow(clippy::cast_possible_truncation, reason = "it splits the value")]
    pub fn put_back_alarm(&self, state: &RtcState) {
        if state.alarm != 0 || state.is_running != 0 {
            self.0.write(register::IRQ_ENABLED, 0);
            // The write of the low half sets the alarm.
            self.0
                .write(register::ALARM_HIGH, (state.alarm >> 32) as u32);
            self.0.write(register::ALARM_LOW, state.alarm as u32);
            if state.is_running == 0 && state.is_enabled == 0 {
                self.0.write(register::CLEAR_ALARM, 1);
                self.0.write(register::CLEAR_INTERRUPT, 1);
            }
        }
        self.0.write(register::IRQ_ENABLED, state.is_enabled.into());
    }

    /// Restores the latch. The clock is set to a time with that high half, is read, and is set
    /// back; only high halves change, so it loses no time. Returns false for a clock that cannot be
    /// set by its high half alone: it keeps another latch.
    pub fn put_back_latch(&self, state: &RtcState) -> bool {
        // The low half must not overflow during this. The number of reads is limited, because a
        // stopped clock never gets past the overflow.
        let mut reads = 0..MAX_READS;
        while self.0.read(register::TIME_LOW) > u32::MAX - NEAR_OVERFLOW {
            if reads.next().is_none() {
                return false;
            }
        }
        let high = self.0.read(register::TIME_HIGH);
        if high == state.latch {
            return true;
        }
        self.0.write(register::TIME_HIGH, state.latch);
        self.0.read(register::TIME_LOW);
        self.0.write(register::TIME_HIGH, high);
        self.0.read(register::TIME_HIGH) == state.latch
    }

    fn read_halves(&self, low: u64, high: u64) -> u64 {
        let low = self.0.read(low);
        u64::from(self.0.read(high)) << 32 | u64::from(low)
    }
}

/// Lets an OS read the time alone. Other loads of the clock's page read 0, and stores have no
/// effect: no OS sets the alarm, which may wake the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAlone {
    /// Offset of the clock in its page.
    place: u64,
}

impl TimeAlone {
    /// For the clock at this address; also returns its page.
    #[must_use]
    pub fn new(clock: u64) -> (PhysRange, Self) {
        let place = clock % PAGE_BYTES;
        let page = PhysRange::new(clock - place, PAGE_BYTES);
        (page, TimeAlone { place })
    }
}

impl Mediator for TimeAlone {
    fn rule(
        &mut self,
        offset: u64,
        bytes: u64,
        access: RegisterAccess,
        _: &dyn CallerMemory,
    ) -> Ruling {
        let register = offset.checked_sub(self.place);
        let is_time = matches!(register, Some(register::TIME_LOW | register::TIME_HIGH));
        match access {
            RegisterAccess::Load if is_time && bytes == 4 => Ruling::Pass,
            RegisterAccess::Load | RegisterAccess::Store(_) => Ruling::Done,
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "it splits values")]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::mediated::NoMemory;

    #[test]
    fn an_os_with_the_time_alone_reads_it_and_sets_no_alarm() {
        let (page, mut clock) = TimeAlone::new(0x10_1100);
        assert_eq!(page, PhysRange::new(0x10_1000, 0x1000));
        for offset in 0..0x1000_u64 {
            for bytes in [1, 2, 4, 8]
                .into_iter()
                .filter(|bytes| offset.is_multiple_of(*bytes))
            {
                let mut rule = |access| clock.rule(offset, bytes, access, &NoMemory);
                let is_time = bytes == 4 && [0x100, 0x104].contains(&offset);
                let load = if is_time { Ruling::Pass } else { Ruling::Done };
                assert_eq!(rule(RegisterAccess::Load), load, "{offset:#x}, {bytes}");
                assert_eq!(rule(RegisterAccess::Store(1)), Ruling::Done, "{offset:#x}");
            }
        }
    }

    #[test]
    fn a_suspended_os_keeps_its_alarm_unless_that_was_due() {
        let state = |alarm, is_running, is_enabled| RtcState {
            alarm,
            latch: 7,
            is_enabled,
            is_running,
            _unused: [0; 2],
        };
        let kept = |state: RtcState| {
            let kept = state.of_suspended()?;
            assert_eq!(kept.latch, 0);
            Some((kept.alarm, kept.is_running, kept.is_enabled))
        };
        assert_eq!(kept(state(500, 1, 1)), Some((500, 1, 1)));
        assert_eq!(kept(state(500, 1, 0)), Some((500, 1, 0)));
        assert_eq!(kept(state(500, 0, 1)), Some((0, 0, 1)));
        assert_eq!(kept(state(500, 0, 0)), None);

        // It has become due while the power was off.
        let clock = Model::default();
        clock.now.set(1000);
        let alarm = state(500, 1, 1).of_suspended().unwrap();
        GoldfishRtc::new(&clock).put_back_alarm(&alarm);
        clock.tick();
        assert!(clock.interrupts());
        // It was due before.
        let clock = Model::default();
        clock.now.set(1000);
        let alarm = state(500, 0, 1).of_suspended().unwrap();
        GoldfishRtc::new(&clock).put_back_alarm(&alarm);
        clock.tick();
        assert!(clock.is_enabled.get() && !clock.interrupts());
    }

    /// Time advances with every access.
    #[derive(Debug, Default)]
    struct Model {
        now: Cell<u64>,
        latch: Cell<u64>,
        alarm: Cell<u64>,
        /// The high half of the next alarm.
        high: Cell<u64>,
        is_enabled: Cell<bool>,
        is_running: Cell<bool>,
        is_pending: Cell<bool>,
        /// Sum of the changes by which it was set.
        offset: Cell<u64>,
    }

    impl Model {
        fn time(&self) -> u64 {
            self.now.get().wrapping_add(self.offset.get())
        }

        /// An alarm that falls due.
        fn tick(&self) {
            self.now.set(self.now.get() + 1);
            if self.is_running.get() && self.alarm.get() <= self.time() {
                self.is_running.set(false);
                self.is_pending.set(true);
            }
        }

        fn interrupts(&self) -> bool {
            self.is_pending.get() && self.is_enabled.get()
        }
    }

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            self.tick();
            match offset {
                0 => {
                    self.latch.set(self.time());
                    self.time() as u32
                }
                4 => (self.latch.get() >> 32) as u32,
                8 => self.alarm.get() as u32,
                0xc => (self.alarm.get() >> 32) as u32,
                0x10 => self.is_enabled.get().into(),
                0x18 => self.is_running.get().into(),
                _ => panic!("no register to be read lies at {offset:#x}"),
            }
        }

        fn write(&self, offset: u64, value: u32) {
            match offset {
                4 => {
                    let time = self.time();
                    let set = u64::from(value) << 32 | time & 0xffff_ffff;
                    self.offset
                        .set(self.offset.get().wrapping_add(set.wrapping_sub(time)));
                }
                8 => {
                    self.alarm.set(self.high.get() << 32 | u64::from(value));
                    self.is_running.set(true);
                }
                0xc => self.high.set(value.into()),
                0x10 => self.is_enabled.set(value != 0),
                0x14 => self.is_running.set(false),
                0x1c => self.is_pending.set(false),
                _ => panic!("{offset:#x} is the OS's to write"),
            }
            self.tick();
        }
    }

    #[test]
    fn time_does_not_jump_where_its_low_half_overflows() {
        let model = Model::default();
        let rtc = GoldfishRtc::new(&model);
        let mut last = 0xffff_fff0;
        model.now.set(last);
        for _ in 0..16 {
            let now = rtc.now_ns();
            assert!(last < now && now < last + 5, "{now:#x} after {last:#x}");
            last = now;
        }
        assert!(last > 1 << 32);
    }

    #[test]
    fn an_alarm_counts_when_it_may_interrupt() {
        let model = Model::default();
        let rtc = GoldfishRtc::new(&model);
        assert_eq!(rtc.alarm_in_ns(), None);
        model.alarm.set(5 << 32);
        assert_eq!(rtc.alarm_in_ns(), None);
        model.is_enabled.set(true);
        let left = rtc.alarm_in_ns().unwrap();
        assert!(left < 5 << 32 && left > (5 << 32) - 100);
        model.now.set(6 << 32);
        assert_eq!(rtc.alarm_in_ns(), Some(0));
        model.alarm.set(0);
        assert_eq!(rtc.alarm_in_ns(), None);
    }

    /// A clock as an OS leaves it: an alarm that is to come, has come, or was taken back.
    fn left(alarm: u64, is_enabled: bool, is_running: bool) -> (Model, RtcState) {
        let model = Model::default();
        model.now.set(5 << 32 | 0x1000);
        // The OS has read the low half, and time advances.
        let rtc = GoldfishRtc::new(&model);
        rtc.now_ns();
        model.now.set(6 << 32 | 0x1000);
        model.alarm.set(alarm);
        model.is_enabled.set(is_enabled);
        model.is_running.set(is_running);
        let state = rtc.capture();
        (model, state)
    }

    /// A clock whose registers read as all ones.
    struct Gone;

    impl Registers<u32> for Gone {
        fn read(&self, _: u64) -> u32 {
            u32::MAX
        }

        fn write(&self, _: u64, _: u32) {}
    }

    #[test]
    fn a_clock_that_stands_still_is_not_waited_for_without_an_end() {
        let (_, state) = left(0, false, false);
        assert!(!GoldfishRtc::new(Gone).put_back_latch(&state));
    }

    #[test]
    fn an_alarm_is_put_back() {
        for is_enabled in [false, true] {
            let due = 9 << 32 | 5;
            let (_, state) = left(due, is_enabled, true);
            let model = Model::default();
            model.now.set(8 << 32);
            let rtc = GoldfishRtc::new(&model);
            rtc.put_back_alarm(&state);
            assert_eq!(model.alarm.get(), due);
            assert!(model.is_running.get() && !model.is_pending.get());
            assert_eq!(model.is_enabled.get(), is_enabled);
            // While the power was off.
            let late = Model::default();
            late.now.set(due + 7);
            GoldfishRtc::new(&late).put_back_alarm(&state);
            assert!(late.is_pending.get());
            assert_eq!(late.interrupts(), is_enabled);
        }
    }

    #[test]
    fn an_alarm_that_has_come_comes_again_where_it_may_interrupt() {
        for (alarm, is_enabled, comes) in [
            (4 << 32, true, true),
            (4 << 32, false, false),
            (0, true, false),
            (0, false, false),
        ] {
            let (_, state) = left(alarm, is_enabled, false);
            let model = Model::default();
            model.now.set(8 << 32);
            GoldfishRtc::new(&model).put_back_alarm(&state);
            assert_eq!(model.is_pending.get(), comes, "{alarm:#x} {is_enabled}");
            assert_eq!(model.alarm.get(), alarm);
            assert_eq!(model.is_enabled.get(), is_enabled);
            assert!(!model.is_running.get());
        }
    }

    #[test]
    fn the_half_of_a_time_that_is_still_to_be_read_is_put_back() {
        let (_, state) = left(0, false, false);
        for now in [
            8 << 32 | 0x7fff_ffff,
            9 << 32 | 0xffff_ff00,
            (10 << 32) - 10,
            5 << 32,
        ] {
            let model = Model::default();
            model.now.set(now);
            let rtc = GoldfishRtc::new(&model);
            let wait = u64::from(NEAR_OVERFLOW);
            if now & 0xffff_ffff > u64::from(u32::MAX - NEAR_OVERFLOW) {
                // Waited for by the number of reads that the model needs.
                model.now.set(now + wait);
            }
            assert!(rtc.put_back_latch(&state), "{now:#x}");
            assert_eq!(Registers::read(&&model, 4), 5);
            assert_eq!(model.offset.get(), 0, "the clock is as it was");
        }
    }
}
