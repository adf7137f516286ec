//! Where things lie in a sleep area.

use poorwill_memory::PAGE_BYTES;

use crate::slot::SlotId;

/// Bytes of the smallest sleep area: its head, and two slots that hold an image
/// of hardly anything.
pub const MIN_AREA_BYTES: u64 = 5 << 20;

/// What precedes the slots: the configuration's page, the records, and room.
const HEAD_BYTES: u64 = SLOT_ALIGN;

/// Slots start at, and are, multiples of this.
const SLOT_ALIGN: u64 = 1 << 20;

/// Where the configuration's page lies; the records follow.
pub(crate) const CONFIGURATION_OFFSET: u64 = 0;

/// Where a slot's record lies.
pub(crate) fn record_offset(slot: SlotId) -> u64 {
    (1 + slot.index() as u64) * PAGE_BYTES
}

/// Length of each slot of an area of `area_bytes` bytes.
pub(crate) fn slot_bytes(area_bytes: u64) -> u64 {
    area_bytes.saturating_sub(HEAD_BYTES) / 2 / SLOT_ALIGN * SLOT_ALIGN
}

/// Where a slot lies in an area of `area_bytes` bytes.
pub(crate) fn slot_offset(slot: SlotId, area_bytes: u64) -> u64 {
    HEAD_BYTES + slot.index() as u64 * slot_bytes(area_bytes)
}
