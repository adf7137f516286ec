//! All functions below a host bridge, as an OS has set them up.

use arrayvec::ArrayVec;

use super::bus::{Bus, Present};
use super::register::{BAR0, CLASS, COMMAND, COMMAND_MASTER, ID, Kept, is_bridge};
use super::{ConfigSpace, Function, HostBridge, Location, MAX_FUNCTIONS, PciError};

/// A function that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where.
    pub function: Function,
    /// Vendor (bits 15:0) and device.
    pub id: u32,
    /// Class, subclass and interface, 24 bits.
    pub class: u32,
    /// Whether it is a bridge to another bus.
    pub is_bridge: bool,
    /// Whether it has access to memory (bus mastering).
    pub is_master: bool,
}

/// The functions of all buses that have numbers; a bridge comes before what is behind it.
///
/// # Errors
///
/// [`PciError::TooManyFunctions`].
pub fn list(
    config: &impl ConfigSpace,
    host: &HostBridge,
) -> Result<ArrayVec<Listed, MAX_FUNCTIONS>, PciError> {
    let mut listed = ArrayVec::<Listed, MAX_FUNCTIONS>::new();
    // At most one for each function that was listed.
    let mut buses = ArrayVec::<Bus, { MAX_FUNCTIONS + 1 }>::new();
    buses.push(Bus::root(host));
    let mut next = 0;
    while let Some(bus) = buses.get(next).copied() {
        next += 1;
        for Present { function, header } in bus.functions(config) {
            let entry = Listed {
                function,
                id: config.read32(function, ID),
                class: config.read32(function, CLASS) >> 8,
                is_bridge: is_bridge(header),
                is_master: config.read32(function, COMMAND) & COMMAND_MASTER != 0,
            };
            let too_many = PciError::TooManyFunctions(function);
            listed.try_push(entry).map_err(|_| too_many)?;
            if let Some(behind) = bus.behind_numbered(config, function) {
                buses.push(behind);
            }
        }
    }
    Ok(listed)
}

/// The function at a location, while the bridges above it have the numbers of their buses.
#[must_use]
pub fn function_at(
    config: &impl ConfigSpace,
    host: &HostBridge,
    location: &Location,
) -> Option<Function> {
    let mut bus = Bus::root(host);
    for step in &location.bridges {
        bus = bus.behind_numbered(config, bus.at(*step))?;
    }
    Some(bus.at(location.function))
}

/// The address on the bus that a BAR for memory holds; `None` where it is another one, or
/// holds none.
#[must_use]
pub fn bar_address(config: &impl ConfigSpace, function: Function, bar: u8) -> Option<u64> {
    let register = BAR0 + 4 * u16::from(bar);
    let low = config.read32(function, register);
    let high = match low & 0b111 {
        0b000 => 0,
        0b100 if bar < 5 => config.read32(function, register + 4),
        _ => return None,
    };
    let address = u64::from(high) << 32 | u64::from(low & !0xf);
    (address != 0).then_some(address)
}

/// Takes the access to memory from a function.
pub fn take_access(config: &impl ConfigSpace, function: Function) {
    let command = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
    config.write32(function, COMMAND, command & !COMMAND_MASTER);
}

/// Has a function answer nowhere and reach nothing, as after a power-on.
pub fn switch_off(config: &impl ConfigSpace, function: Function) {
    config.write32(function, COMMAND, 0);
}
