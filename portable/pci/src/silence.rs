use arrayvec::ArrayVec;

use super::bus::Bus;
use super::register::{COMMAND, COMMAND_MASTER, Kept};
use super::{ConfigSpace, Function, HostBridge, Location, PciError, Step, take_access};

/// The most functions with access to memory.
const MAX_MASTERS: usize = 64;

/// Functions whose access to memory was turned off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "release it: the functions must get their access back"]
pub struct Silenced(ArrayVec<Function, MAX_MASTERS>);

/// Turns off the access to memory (bus mastering) of all functions below a host bridge.
/// The [acquired](super::acquire) device at `location`, if given, and the bridges above
/// it keep theirs, so only that device can write memory. A bridge without access forwards
/// no accesses, so functions below it need no change.
///
/// # Errors
///
/// [`PciError::TooManyMasters`]; all functions then have their access back.
pub fn silence(
    config: &impl ConfigSpace,
    host: &HostBridge,
    location: Option<&Location>,
) -> Result<Silenced, PciError> {
    let mut silenced = Silenced::default();
    let way = location.map(|location| location.bridges.iter().chain([&location.function]));
    let mut way = way.into_iter().flatten();
    let mut next = Some(Bus::root(host));
    while let Some(bus) = next {
        let own = way.next();
        for present in bus.functions(config) {
            let Function {
                device, function, ..
            } = present.function;
            let is_own = own == Some(&Step { device, function });
            if !is_own && let Err(error) = silenced.take(config, present.function) {
                silenced.release(config);
                return Err(error);
            }
        }
        next = own.and_then(|own| bus.behind_numbered(config, bus.at(*own)));
    }
    Ok(silenced)
}

impl Silenced {
    fn take(&mut self, config: &impl ConfigSpace, function: Function) -> Result<(), PciError> {
        if config.read32(function, COMMAND) & COMMAND_MASTER == 0 {
            return Ok(());
        }
        let too_many = PciError::TooManyMasters(function);
        self.0.try_push(function).map_err(|_| too_many)?;
        take_access(config, function);
        Ok(())
    }

    /// Restores the access of all these functions.
    pub fn release(self, config: &impl ConfigSpace) {
        for function in self.0 {
            let command = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
            config.write32(function, COMMAND, command | COMMAND_MASTER);
        }
    }
}
