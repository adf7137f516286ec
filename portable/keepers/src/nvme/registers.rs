//! Registers of a controller (3.1).

use crate::Window;

/// Capabilities.
pub(super) const CAP: u64 = 0x00;
/// It has a memory buffer.
pub(super) const CAP_CMBS: u64 = 1 << 57;
/// Interrupt mask, by setting bits.
pub(super) const INTMS: u64 = 0x0c;
pub(super) const CC: u64 = 0x14;
pub(super) const CSTS: u64 = 0x1c;
/// Admin queue: attributes, and the addresses of its two rings.
pub(super) const AQA: u64 = 0x24;
pub(super) const ASQ: u64 = 0x28;
pub(super) const ACQ: u64 = 0x30;
/// Where a memory buffer is (controller memory buffer memory space control).
pub(super) const CMBMSC: u64 = 0x50;
/// Where doorbells begin, that of the admin submission queue being the first.
const DOORBELLS: u64 = 0x1000;
/// Bytes of all registers before them.
pub(super) const LENGTH: u64 = DOORBELLS;

/// The doorbell of a submission queue, by its identifier and by what CAP says.
pub(super) fn doorbell(queue: u32, capabilities: u64) -> u64 {
    DOORBELLS + 2 * u64::from(queue) * stride(capabilities)
}

/// Where in a buffer of doorbells those of a queue are: of submissions, and of completions
/// (section 5.9, figure 142).
pub(super) fn buffered_doorbells(queue: u32, capabilities: u64) -> [u64; 2] {
    let first = 2 * u64::from(queue);
    [first, first + 1].map(|place| place * stride(capabilities))
}

/// Bytes from one doorbell to the next.
fn stride(capabilities: u64) -> u64 {
    4 << (capabilities >> 32 & 0xf)
}

pub(super) const CC_EN: u32 = 1;
pub(super) const CC_SHN: u32 = 0b11 << 14;
pub(super) const CC_SHN_NORMAL: u32 = 0b01 << 14;

pub(super) const CSTS_RDY: u32 = 1;
pub(super) const CSTS_CFS: u32 = 1 << 1;
pub(super) const CSTS_SHST: u32 = 0b11 << 2;
pub(super) const CSTS_SHST_DONE: u32 = 0b10 << 2;

pub(super) fn read64(registers: &impl Window, offset: u64) -> u64 {
    let low = u64::from(registers.read32(offset));
    low | u64::from(registers.read32(offset + 4)) << 32
}

#[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
pub(super) fn write64(registers: &impl Window, offset: u64, value: u64) {
    registers.write32(offset, value as u32);
    registers.write32(offset + 4, (value >> 32) as u32);
}
