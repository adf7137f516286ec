//! Pins of `sifive,gpio0` as outputs (SiFive FU540-C000 manual, chapter 17).

use poorwill_devicetree::{Drive, GpioSwitch};

use crate::Registers;

/// Offsets of registers with a bit for each pin.
mod register {
    pub(super) const OUTPUT_ENABLE: u64 = 0x08;
    pub(super) const OUTPUT_VALUE: u64 = 0x0c;
}

/// A pin that resets the machine or switches it off.
#[derive(Clone, Copy, Debug)]
pub struct GpioPin<R> {
    registers: R,
    described: GpioSwitch,
}

impl<R: Registers<u32>> GpioPin<R> {
    /// The pin in `described`, of the controller with these registers.
    pub fn new(registers: R, described: GpioSwitch) -> Self {
        GpioPin {
            registers,
            described,
        }
    }

    /// Makes the pin active, inactive, and active again, as some machines react to a level and others
    /// to an edge (Linux, `gpio-restart.yaml`). `wait` waits for a number of ms.
    pub fn operate(&self, wait: impl Fn(u32)) {
        let GpioSwitch {
            active_ms,
            inactive_ms,
            wait_ms,
            ..
        } = self.described;
        for (is_active, ms) in [(true, active_ms), (false, inactive_ms), (true, wait_ms)] {
            self.set(is_active);
            wait(ms);
        }
    }

    fn set(&self, is_active: bool) {
        let is_high = is_active != self.described.is_active_low;
        let is_driven = match self.described.drive {
            Drive::Both => true,
            Drive::Low => !is_high,
            Drive::High => is_high,
        };
        // The level first, so that the pin never has another one.
        if is_driven {
            self.change(register::OUTPUT_VALUE, is_high);
        }
        self.change(register::OUTPUT_ENABLE, is_driven);
    }

    fn change(&self, offset: u64, is_set: bool) {
        let bit = 1 << self.described.pin;
        let others = self.registers.read(offset) & !bit;
        let own = if is_set { bit } else { 0 };
        self.registers.write(offset, others | own);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const PIN: u32 = 10;

    /// A controller, and the levels of the pin: `None` while it is not driven.
    #[derive(Debug)]
    struct Model {
        enabled: Cell<u32>,
        values: Cell<u32>,
        levels: RefCell<Vec<(Option<bool>, u32)>>,
    }

    impl Model {
        fn level(&self) -> Option<bool> {
            let is_set = |bits: u32| bits >> PIN & 1 != 0;
            is_set(self.enabled.get()).then_some(is_set(self.values.get()))
        }

        fn register(&self, offset: u64) -> &Cell<u32> {
            match offset {
                0x08 => &self.enabled,
                0x0c => &self.values,
                other => panic!("no such register: {other:#x}"),
            }
        }
    }

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            self.register(offset).get()
        }

        fn write(&self, offset: u64, value: u32) {
            let register = self.register(offset);
            let others = !(1 << PIN);
            assert_eq!(register.get() & others, value & others, "another pin");
            register.set(value);
            self.levels.borrow_mut().push((self.level(), 0));
        }
    }

    /// The levels that the pin has, each with the time for which it has it.
    fn levels(drive: Drive, is_active_low: bool, before: [u32; 2]) -> Vec<(Option<bool>, u32)> {
        let model = Model {
            enabled: Cell::new(before[0]),
            values: Cell::new(before[1]),
            levels: RefCell::default(),
        };
        let described = GpioSwitch {
            controller: 0,
            pin: PIN,
            is_active_low,
            drive,
            active_ms: 10,
            inactive_ms: 20,
            wait_ms: 30,
        };
        GpioPin::new(&model, described).operate(|ms| {
            model.levels.borrow_mut().push((model.level(), ms));
        });
        let mut levels = model.levels.into_inner();
        levels.dedup_by(|next, last| {
            let is_same = next.0 == last.0;
            last.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        levels
    }

    #[test]
    fn the_pin_is_active_twice() {
        let (low, high) = (Some(false), Some(true));
        let others = [0x5a5a_0000, 0xa5a5_0000];
        for (drive, is_active_low, expected) in [
            (Drive::Both, true, [low, high, low]),
            (Drive::Both, false, [high, low, high]),
            (Drive::Low, true, [low, None, low]),
            (Drive::High, false, [high, None, high]),
        ] {
            let wanted: Vec<_> = expected.into_iter().zip([10, 20, 30]).collect();
            let mut seen = levels(drive, is_active_low, others);
            // The level is prepared while the pin is not driven.
            seen.retain(|(_, ms)| *ms > 0);
            assert_eq!(seen, wanted, "{drive:?}");
        }
    }

    #[test]
    fn a_driven_pin_changes_its_level_alone() {
        let bit = 1 << PIN;
        for before in [[bit, 0], [bit, bit]] {
            let seen = levels(Drive::Both, true, before);
            assert!(seen.iter().all(|(level, _)| level.is_some()), "{seen:?}");
        }
    }
}
