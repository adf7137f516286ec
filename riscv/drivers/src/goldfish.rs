//! The goldfish real-time clock, which runs while the power is off (Android's
//! GOLDFISH-VIRTUAL-HARDWARE, "Goldfish real-time clock").

use crate::Registers;

/// Register offsets. A 64-bit value has two: reading the low half of the time
/// latches the high one.
mod register {
    pub(super) const TIME_LOW: u64 = 0;
    pub(super) const TIME_HIGH: u64 = 4;
    pub(super) const ALARM_LOW: u64 = 8;
    pub(super) const ALARM_HIGH: u64 = 0xc;
    /// Whether the alarm interrupts.
    pub(super) const IRQ_ENABLED: u64 = 0x10;
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

    /// Nanoseconds until the alarm falls due, 0 if it has and nobody has taken
    /// notice; `None` without an alarm.
    pub fn alarm_in_ns(&self) -> Option<u64> {
        let alarm = self.alarm_ns()?;
        Some(alarm.saturating_sub(self.now_ns()))
    }

    /// When the alarm falls due; `None` without one.
    pub fn alarm_ns(&self) -> Option<u64> {
        let alarm = self.read_halves(register::ALARM_LOW, register::ALARM_HIGH);
        (self.0.read(register::IRQ_ENABLED) != 0 && alarm != 0).then_some(alarm)
    }

    /// Has it fall due at a time, or at once where that is over.
    #[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
    pub fn set_alarm_ns(&self, alarm: u64) {
        self.0.write(register::IRQ_ENABLED, 1);
        // The low half makes it one.
        self.0.write(register::ALARM_HIGH, (alarm >> 32) as u32);
        self.0.write(register::ALARM_LOW, alarm as u32);
    }

    fn read_halves(&self, low: u64, high: u64) -> u64 {
        let low = self.0.read(low);
        u64::from(self.0.read(high)) << 32 | u64::from(low)
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Time goes on with every access.
    #[derive(Debug, Default)]
    struct Model {
        now: Cell<u64>,
        latch: Cell<u64>,
        alarm: Cell<u64>,
        /// The high half of the next alarm.
        high: Cell<u64>,
        is_enabled: Cell<bool>,
    }

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            self.now.set(self.now.get() + 1);
            match offset {
                0 => {
                    self.latch.set(self.now.get());
                    self.now.get() as u32
                }
                4 => (self.latch.get() >> 32) as u32,
                8 => self.alarm.get() as u32,
                0xc => (self.alarm.get() >> 32) as u32,
                0x10 => self.is_enabled.get().into(),
                _ => panic!("no register to be read lies at {offset:#x}"),
            }
        }

        fn write(&self, offset: u64, value: u32) {
            match offset {
                8 => self.alarm.set(self.high.get() << 32 | u64::from(value)),
                0xc => self.high.set(value.into()),
                0x10 => self.is_enabled.set(value != 0),
                _ => panic!("{offset:#x} is the OS's to write"),
            }
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

    #[test]
    fn an_alarm_is_put_back() {
        let model = Model::default();
        let rtc = GoldfishRtc::new(&model);
        assert_eq!(rtc.alarm_ns(), None);
        rtc.set_alarm_ns(7 << 32 | 5);
        assert_eq!(rtc.alarm_ns(), Some(7 << 32 | 5));
    }
}
