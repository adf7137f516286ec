//! Controller registers that the sleep area's own driver does not use.

use poorwill_medium::nvme::register::DOORBELLS;

/// CAP: the controller has a memory buffer.
pub(super) const CAP_CMBS: u64 = 1 << 57;

/// The address of the controller memory buffer (CMBMSC).
pub(super) const CMBMSC: u64 = 0x50;

/// The offset of a submission queue's doorbell. CAP has the stride.
pub(super) fn doorbell(queue: u32, capabilities: u64) -> u64 {
    let [submissions, _] = buffered_doorbells(queue, capabilities);
    DOORBELLS + submissions
}

/// The offsets of a queue's submission and completion doorbells in a doorbell buffer
/// (section 5.9, figure 142).
pub(super) fn buffered_doorbells(queue: u32, capabilities: u64) -> [u64; 2] {
    let stride = 4 << (capabilities >> 32 & 0xf);
    let first = 2 * u64::from(queue);
    [first, first + 1].map(|place| place * stride)
}
