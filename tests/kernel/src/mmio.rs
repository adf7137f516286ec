//! Device registers and raw memory, by address.
//!
//! The test kernel runs without translation, and owns all of the machine that the firmware left to
//! it, so it may access any address. An access that the firmware forbids ends in a trap, which some
//! cases expect.

/// Reads a 32-bit device register.
pub(crate) fn read32(address: usize) -> u32 {
    // SAFETY: device registers are no Rust objects; a bad address traps.
    unsafe { core::ptr::read_volatile(core::ptr::without_provenance(address)) }
}

/// Writes a 32-bit device register.
pub(crate) fn write32(address: usize, value: u32) {
    // SAFETY: device registers are no Rust objects; a bad address traps.
    unsafe { core::ptr::write_volatile(core::ptr::without_provenance_mut(address), value) }
}

/// Reads a 64-bit device register.
pub(crate) fn read64(address: usize) -> u64 {
    // SAFETY: device registers are no Rust objects; a bad address traps.
    unsafe { core::ptr::read_volatile(core::ptr::without_provenance(address)) }
}

/// Writes a 64-bit device register.
pub(crate) fn write64(address: usize, value: u64) {
    // SAFETY: device registers are no Rust objects; a bad address traps.
    unsafe { core::ptr::write_volatile(core::ptr::without_provenance_mut(address), value) }
}

/// Writes an 8-bit device register.
pub(crate) fn write8(address: usize, value: u8) {
    // SAFETY: device registers are no Rust objects; a bad address traps.
    unsafe { core::ptr::write_volatile(core::ptr::without_provenance_mut(address), value) }
}

/// Reads an 8-bit device register.
pub(crate) fn read8(address: usize) -> u8 {
    // SAFETY: device registers are no Rust objects; a bad address traps.
    unsafe { core::ptr::read_volatile(core::ptr::without_provenance(address)) }
}

/// Writes a 16-bit device register.
pub(crate) fn write16(address: usize, value: u16) {
    // SAFETY: device registers are no Rust objects; a bad address traps.
    unsafe { core::ptr::write_volatile(core::ptr::without_provenance_mut(address), value) }
}
