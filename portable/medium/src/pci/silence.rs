use arrayvec::ArrayVec;

use super::bus::Bus;
use super::register::{COMMAND, COMMAND_MASTER, Kept};
use super::{ConfigSpace, Function, HostBridge, Location, PciError, Step, take_access};

/// How many functions may have access to memory.
const MAX_MASTERS: usize = 64;

/// Functions that had access to memory, from which it was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "they are to be given it back"]
pub struct Silenced(ArrayVec<Function, MAX_MASTERS>);

/// Takes the access to memory (bus mastering) from every function below a host bridge but
/// the device at `location`, if there is one here, which is [acquired](super::acquire), and
/// the bridges above it: what nobody but that device writes to stays as it is. A bridge
/// without access passes on none, so what is behind one need not be looked at.
///
/// # Errors
///
/// [`PciError::TooManyMasters`]; all have their access back then.
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

    /// Gives all of them their access back.
    pub fn release(self, config: &impl ConfigSpace) {
        for function in self.0 {
            let command = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
            config.write32(function, COMMAND, command | COMMAND_MASTER);
        }
    }
}
