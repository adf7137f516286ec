//! What resets a machine, or switches it off.

use poorwill_devicetree as devicetree;

use crate::gpio::GpioPin;
use crate::{Registers, Syscon};

/// A means to reset the machine, or to switch its power off.
#[derive(Clone, Copy, Debug)]
pub enum Switch<R> {
    /// A register of the system controller.
    Syscon(Syscon<R>),
    /// A pin.
    Gpio(GpioPin<R>),
}

impl<R: Registers<u32>> Switch<R> {
    /// The switch in `described`, whose registers begin with `registers`.
    pub fn new(registers: R, described: &devicetree::Switch) -> Self {
        match described {
            devicetree::Switch::Syscon(syscon) => Switch::Syscon(Syscon::new(registers, syscon)),
            devicetree::Switch::Gpio(gpio) => Switch::Gpio(GpioPin::new(registers, *gpio)),
        }
    }

    /// Operates the switch. `wait` waits for a number of ms. Slow hardware may act after the return.
    pub fn operate(&self, wait: impl Fn(u32)) {
        match self {
            Switch::Syscon(syscon) => syscon.write(),
            Switch::Gpio(pin) => pin.operate(wait),
        }
    }
}
