use super::register::{CAPABILITIES, COMMAND, STATUS_CAPABILITIES};
use super::{ConfigSpace, Function, PciError};

/// Each capability takes at least a dword between 0x40 and 0xff, so a longer list has a
/// loop.
const MAX_CAPABILITIES: usize = 48;

/// Where the capability `wanted` begins; `None` when the function has none.
pub(super) fn find(
    config: &impl ConfigSpace,
    function: Function,
    wanted: u8,
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
        if header & 0xff == u32::from(wanted) {
            return Ok(Some(register));
        }
        pointer = header >> 8 & 0xfc;
    }
    Err(damaged)
}
