//! Lists all functions below a host bridge, as configured by an OS.

use arrayvec::ArrayVec;

use super::bus::{Bus, Present, look};
use super::capability::{find, find_extended};
use super::register::{
    BAR0, CLASS, COMMAND, COMMAND_IO, COMMAND_MASTER, COMMAND_MEMORY, COMMAND_NO_INTX, ID, Kept,
    NO_SOFT_RESET, POWER_CONTROL, POWER_MANAGEMENT, POWER_STATE, VIRTUAL_CONTROL, VIRTUAL_ENABLE,
    VIRTUAL_FUNCTIONS, is_bridge,
};
use super::{ConfigSpace, Function, HostBridge, Kind, Location, MAX_FUNCTIONS, PciError};

/// A listed function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The address on the bus.
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

/// The functions of all numbered buses; a bridge comes before the functions below it.
///
/// # Errors
///
/// [`PciError::TooManyFunctions`].
pub fn list(
    config: &impl ConfigSpace,
    host: &HostBridge,
) -> Result<ArrayVec<Listed, MAX_FUNCTIONS>, PciError> {
    let mut listed = ArrayVec::<Listed, MAX_FUNCTIONS>::new();
    walk(config, host, |Present { function, header }| {
        let entry = Listed {
            function,
            id: config.read32(function, ID),
            class: config.read32(function, CLASS) >> 8,
            is_bridge: is_bridge(header),
            is_master: config.read32(function, COMMAND) & COMMAND_MASTER != 0,
        };
        let too_many = PciError::TooManyFunctions(function);
        listed.try_push(entry).map_err(|_| too_many)
    })?;
    Ok(listed)
}

/// Calls `show` for all functions of numbered buses; a bridge comes before the functions
/// below it.
pub(super) fn walk(
    config: &impl ConfigSpace,
    host: &HostBridge,
    mut show: impl FnMut(Present) -> Result<(), PciError>,
) -> Result<(), PciError> {
    let mut buses = ArrayVec::<Bus, { MAX_FUNCTIONS + 1 }>::new();
    buses.push(Bus::root(host));
    let mut next = 0;
    while let Some(bus) = buses.get(next).copied() {
        next += 1;
        for present in bus.functions(config) {
            show(present)?;
            if let Some(behind) = bus.behind_numbered(config, present.function) {
                let too_many = PciError::TooManyFunctions(present.function);
                buses.try_push(behind).map_err(|_| too_many)?;
            }
        }
    }
    Ok(())
}

/// Whether a driver may have set up state in a function without access to memory. It may
/// if the function decodes addresses, and is not in a power state that ends with a reset.
///
/// # Errors
///
/// [`PciError::CapabilityList`].
pub fn holds_state(config: &impl ConfigSpace, function: Function) -> Result<bool, PciError> {
    if config.read32(function, COMMAND) & (COMMAND_IO | COMMAND_MEMORY) == 0 {
        return Ok(false);
    }
    let power = find(config, function, POWER_MANAGEMENT)?;
    let control = power.map_or(0, |power| config.read32(function, power + POWER_CONTROL));
    Ok(control & (POWER_STATE | NO_SOFT_RESET) != POWER_STATE)
}

/// Whether a function has virtual functions enabled (SR-IOV, 9.3.3.3.1). These access
/// memory with rights of their own, and the list lacks them: each reads as absent.
///
/// # Errors
///
/// [`PciError::CapabilityList`].
pub fn has_virtual_functions(
    config: &impl ConfigSpace,
    function: Function,
) -> Result<bool, PciError> {
    let found = find_extended(config, function, VIRTUAL_FUNCTIONS)?;
    Ok(found.is_some_and(|virtual_functions| {
        let control = config.read32(function, virtual_functions + VIRTUAL_CONTROL);
        control & VIRTUAL_ENABLE != 0
    }))
}

/// Checks that no function of the numbered buses has [virtual
/// functions](has_virtual_functions).
///
/// # Errors
///
/// [`PciError::VirtualFunctions`]: a function has some. [`PciError::TooManyFunctions`],
/// [`PciError::CapabilityList`]: the check is impossible.
pub fn refuse_virtual_functions(
    config: &impl ConfigSpace,
    host: &HostBridge,
) -> Result<(), PciError> {
    walk(
        config,
        host,
        |Present { function, .. }| match has_virtual_functions(config, function)? {
            true => Err(PciError::VirtualFunctions(function)),
            false => Ok(()),
        },
    )
}

/// The function at a location, if the bridges above it have bus numbers.
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

/// The bus address in a memory BAR; `None` if it is another kind of BAR, or has no
/// address.
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

/// Turns off a function's access to memory.
pub fn take_access(config: &impl ConfigSpace, function: Function) {
    let command = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
    config.write32(function, COMMAND, command & !COMMAND_MASTER);
}

/// The kind of a function that answers; `None` for other functions.
pub fn kind_of(config: &impl ConfigSpace, function: Function) -> Option<Kind> {
    Kind::of(config, function, look(config, function)?)
}

/// Turns off a function's INTx.
pub fn disable_intx(config: &impl ConfigSpace, function: Function) {
    let command = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
    config.write32(function, COMMAND, command | COMMAND_NO_INTX);
}

/// Turns off a function's decoding and its access to memory, as after a power-on.
pub fn switch_off(config: &impl ConfigSpace, function: Function) {
    config.write32(function, COMMAND, 0);
}
