//! The clocks for waits on PCI.

use core::fmt::Display;

use poorwill_arch::Time;
use poorwill_clock::Clock;
use poorwill_pci::Function;

use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::wait_clock::WaitClock;

/// The clock for waits on the bus.
pub(super) fn clock() -> WaitClock<&'static Time> {
    WaitClock(&platform().time)
}

/// The clock for waits on a device, which names it.
#[derive(Clone, Debug)]
pub(super) struct DeviceClock(Function);

impl DeviceClock {
    pub(super) fn of(function: Function) -> Self {
        DeviceClock(function)
    }
}

impl Clock for DeviceClock {
    fn milliseconds(&self) -> u64 {
        clock().milliseconds()
    }

    fn power_fails(&self) -> bool {
        clock().power_fails()
    }

    #[cold]
    fn waits(&self, wait: &dyn Display, limit: u64) {
        say!(
            "PCI function {}: waiting for {wait}, for up to {limit} ms",
            self.0
        );
    }
}
