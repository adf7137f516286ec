//! An S-level APLIC (RISC-V AIA 1.0, chapter 4). The firmware sets the addresses of its messages.
#![allow(missing_docs, reason = "the specification has the registers' names")]

use crate::mmio::write32;

// Offsets of registers. Those of a source are 4 bytes apart, from source 0 on, which does not exist.
pub const DOMAINCFG: usize = 0;
pub const SOURCECFG: usize = 0;
pub const SETIP: usize = 0x1c00;
pub const SETIPNUM: usize = 0x1cdc;
pub const CLRIPNUM: usize = 0x1ddc;
pub const SETIE: usize = 0x1e00;
pub const SETIENUM: usize = 0x1edc;
pub const SETIPNUM_LE: usize = 0x2000;
pub const GENMSI: usize = 0x3000;
pub const TARGET: usize = 0x3000;

/// DOMAINCFG: interrupts are enabled (bit 8), and sent as messages (bit 2).
pub const SENDS_MESSAGES: u32 = 1 << 8 | 1 << 2;
/// SOURCECFG: detached, so that software alone raises it.
pub const DETACHED: u32 = 1;
/// SOURCECFG: active at a rising edge.
pub const RISING_EDGE: u32 = 4;
/// SOURCECFG: active while high.
pub const LEVEL_HIGH: u32 = 6;

/// Sends the level-sensitive `source` as message `identity` to the hart with this index.
pub fn route(aplic: usize, source: u32, hart_index: u32, identity: usize) {
    let place = source as usize * 4;
    write32(aplic + SOURCECFG + place, LEVEL_HIGH);
    write32(aplic + TARGET + place, hart_index << 18 | identity as u32);
    write32(aplic + SETIENUM, source);
    write32(aplic + DOMAINCFG, SENDS_MESSAGES);
}

/// Sends another message if the source's line is still high (4.9.2).
#[inline]
pub fn retrigger(aplic: usize, source: u32) {
    write32(aplic + SETIPNUM_LE, source);
}
