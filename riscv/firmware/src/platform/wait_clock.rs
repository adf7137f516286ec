//! The clock for waits on devices.

use core::fmt::Display;

use poorwill_clock::Clock;

use super::console::say;
use super::power_fail;

/// The machine's clock, for waits that end when the power fails.
#[derive(Clone, Debug)]
pub(crate) struct WaitClock<T>(pub(crate) T);

impl<T: Clock> Clock for WaitClock<T> {
    fn milliseconds(&self) -> u64 {
        self.0.milliseconds()
    }

    fn power_fails(&self) -> bool {
        power_fail::check().is_err()
    }

    fn waits(&self, wait: &dyn Display, limit: u64) {
        say!("waiting for {wait}, for up to {limit} ms");
    }
}
