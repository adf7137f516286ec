use super::register::{CAPABILITIES, COMMAND, PCI_EXPRESS, STATUS_CAPABILITIES};
use super::{ConfigSpace, Function, PciError};

/// Each capability takes at least a dword between 0x40 and 0xff, so a longer list has a
/// loop.
const MAX_CAPABILITIES: usize = 48;

/// The offset of the capability `wanted`; `None` if the function lacks it.
pub(super) fn find(
    config: &impl ConfigSpace,
    function: Function,
    wanted: u8,
) -> Result<Option<u16>, PciError> {
    find_where(config, function, |header| {
        header & 0xff == u32::from(wanted)
    })
}

/// The offset of the first capability with a header that is wanted; `None` if no header is.
pub(super) fn find_where(
    config: &impl ConfigSpace,
    function: Function,
    is_wanted: impl Fn(u32) -> bool,
) -> Result<Option<u16>, PciError> {
    let damaged = PciError::CapabilityList(function);
    if config.read32(function, COMMAND) & STATUS_CAPABILITIES == 0 {
        return Ok(None);
    }
    let mut pointer = config.read32(function, CAPABILITIES) & 0xfc;
    for _ in 0..MAX_CAPABILITIES {
        if pointer == 0 {
            return Ok(None);
        }
        let register = u16::try_from(pointer).map_err(|_| damaged)?;
        let header = config.read32(function, register);
        if register < 0x40 || header == u32::MAX {
            return Err(damaged);
        }
        if is_wanted(header) {
            return Ok(Some(register));
        }
        pointer = header >> 8 & 0xfc;
    }
    Err(damaged)
}

/// The offset at which extended configuration space and its capability list start.
const EXTENDED: u16 = 0x100;

/// Each extended capability takes at least two dwords.
const MAX_EXTENDED: usize = (4096 - EXTENDED as usize) / 8;

/// The offset of the extended capability `wanted` (PCI Express base specification,
/// 7.6.3); `None` if the function lacks it or has no extended space.
pub(super) fn find_extended(
    config: &impl ConfigSpace,
    function: Function,
    wanted: u16,
) -> Result<Option<u16>, PciError> {
    let damaged = PciError::CapabilityList(function);
    if find(config, function, PCI_EXPRESS)?.is_none() {
        return Ok(None);
    }
    let mut register = EXTENDED;
    for _ in 0..MAX_EXTENDED {
        let header = config.read32(function, register);
        // All ones: extended space is not mapped, or a bridge does not forward accesses to it.
        if header == 0 || header == u32::MAX {
            return Ok(None);
        }
        if header & 0xffff == u32::from(wanted) {
            return Ok(Some(register));
        }
        match u16::try_from(header >> 20 & 0xffc).map_err(|_| damaged)? {
            0 => return Ok(None),
            next if next < EXTENDED => return Err(damaged),
            next => register = next,
        }
    }
    Err(damaged)
}
