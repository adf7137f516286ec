//! Registers of a controller that the driver for sleep areas has no use for.

use poorwill_medium::nvme::register::DOORBELLS;

/// CAP: it has a memory buffer.
pub(super) const CAP_CMBS: u64 = 1 << 57;

/// Where a memory buffer is (controller memory buffer memory space control).
pub(super) const CMBMSC: u64 = 0x50;

/// The doorbell of a submission queue, by its identifier and by what CAP says.
pub(super) fn doorbell(queue: u32, capabilities: u64) -> u64 {
    let [submissions, _] = buffered_doorbells(queue, capabilities);
    DOORBELLS + submissions
}

/// Where in a buffer of doorbells those of a queue are: of submissions, and of completions
/// (section 5.9, figure 142).
pub(super) fn buffered_doorbells(queue: u32, capabilities: u64) -> [u64; 2] {
    let stride = 4 << (capabilities >> 32 & 0xf);
    let first = 2 * u64::from(queue);
    [first, first + 1].map(|place| place * stride)
}
