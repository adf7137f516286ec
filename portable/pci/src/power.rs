use poorwill_clock::Clock;

use super::journal::Journal;
use super::register::{POWER_CONTROL, POWER_MANAGEMENT, POWER_STATE};
use super::saved::{SavedConfig, within_capabilities};
use super::{ConfigSpace, Function, PciError, capability};

/// Brings a function to D0 from any state, with its configuration unchanged: a function
/// without "no soft reset" loses it in the transition.
pub(super) fn wake(
    config: &impl ConfigSpace,
    clock: &impl Clock,
    function: Function,
    journal: &mut Journal,
) -> Result<(), PciError> {
    let Some(power) = capability::find(config, function, POWER_MANAGEMENT)? else {
        return Ok(());
    };
    let control = within_capabilities(function, power + POWER_CONTROL)?;
    if config.read32(function, control) & POWER_STATE == 0 {
        return Ok(());
    }
    let saved = SavedConfig::take(config, function)?;
    let outcome = journal.power_up(config, clock, function, control);
    saved.put_back(config);
    outcome
}
