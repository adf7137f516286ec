use core::ops::RangeInclusive;

use super::register::{BAR0, COMMAND, COMMAND_MEMORY};
use super::{ConfigSpace, Function, PciError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryBar {
    pub(super) register: u16,
    /// The address in the register.
    pub(super) address: u64,
    /// The length in bytes: a power of two, at least 16.
    pub(super) length: u64,
    /// Whether the next register has the upper half of the address.
    pub(super) is_wide: bool,
    /// Whether reads have no side effects, so that bridges may prefetch.
    pub(super) is_prefetchable: bool,
}

/// The result of probing a base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    Memory(MemoryBar),
    /// An I/O BAR, a reserved type, or a 64-bit type in the last register.
    Other,
    /// The length is missing or not a power of two.
    Unsized {
        is_wide: bool,
    },
}

/// The memory BAR `bar` (0 to 5) of a device. Its length must be in `sizes`.
pub(super) fn memory(
    config: &impl ConfigSpace,
    function: Function,
    bar: u8,
    sizes: RangeInclusive<u64>,
) -> Result<MemoryBar, PciError> {
    match read(config, function, BAR0 + 4 * u16::from(bar), 6) {
        Bar::Memory(memory) if sizes.contains(&memory.length) => Ok(memory),
        Bar::Other => Err(PciError::NotMemory { function, bar }),
        _ => Err(PciError::Size { function, bar }),
    }
}

/// Probes the length of a base address register. Turns decoding off during the probe, and
/// restores all registers.
///
/// `bars` is the number of the function's base address registers.
pub(super) fn read(config: &impl ConfigSpace, function: Function, register: u16, bars: u16) -> Bar {
    let low = config.read32(function, register);
    let is_wide = low & 0b110 == 0b100;
    let is_last = register + 4 >= BAR0 + 4 * bars;
    if low & 1 != 0 || low & 0b010 != 0 || is_wide && is_last {
        return Bar::Other;
    }
    let high = if is_wide {
        config.read32(function, register + 4)
    } else {
        0
    };
    let mask = probe(config, function, register, is_wide);
    let length = mask & mask.wrapping_neg();
    if mask == 0 || mask.wrapping_add(length) != 0 {
        return Bar::Unsized { is_wide };
    }
    Bar::Memory(MemoryBar {
        register,
        address: u64::from(high) << 32 | u64::from(low & !0xf),
        length,
        is_wide,
        is_prefetchable: low & 0b1000 != 0,
    })
}

/// The writable address bits.
fn probe(config: &impl ConfigSpace, function: Function, register: u16, is_wide: bool) -> u64 {
    let command = config.read32(function, COMMAND) & 0xffff;
    let decodes = command & COMMAND_MEMORY != 0;
    if decodes {
        config.write32(function, COMMAND, command & !COMMAND_MEMORY);
    }
    let low = probe_dword(config, function, register) & !0xf;
    let high = match (is_wide, low) {
        (true, _) => probe_dword(config, function, register + 4),
        // The upper bits of a length that are not implemented count as set, unless the whole BAR is
        // missing.
        (false, 0) => 0,
        (false, _) => u32::MAX,
    };
    if decodes {
        config.write32(function, COMMAND, command);
    }
    u64::from(high) << 32 | u64::from(low)
}

fn probe_dword(config: &impl ConfigSpace, function: Function, register: u16) -> u32 {
    let found = config.read32(function, register);
    config.write32(function, register, u32::MAX);
    let mask = config.read32(function, register);
    config.write32(function, register, found);
    mask
}
