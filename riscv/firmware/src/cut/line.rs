//! The power-fail line, for cuts.

use poorwill_sleep::cut;

use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power_fail::{self, PowerFail};

/// Waits until the power is good, on a machine with a power-fail line. The line must not be armed
/// yet.
pub(crate) fn wait_for_power() {
    if let Some(line) = power_fail::line() {
        let time = &platform().time;
        cut::wait_for_power(
            || line.is_raised_unarmed(),
            || time.milliseconds_in(time.ticks()),
            |waits| say!("{waits}"),
        );
    }
}

/// The power-fail line. Callers know that the machine has one.
pub(super) fn line() -> &'static PowerFail {
    power_fail::line().expect("only a machine with a power-fail line is cut")
}
