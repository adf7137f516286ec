//! The layout of a sleep area.

use poorwill_memory::PAGE_BYTES;

use crate::slot::SlotId;

/// The length of the smallest sleep area: its head and two slots for tiny images.
pub const MIN_AREA_BYTES: u64 = 5 << 20;

/// The bytes before the slots: the configuration's page, the records, and free space.
const HEAD_BYTES: u64 = SLOT_ALIGN;

/// The alignment of slots and their lengths.
const SLOT_ALIGN: u64 = 1 << 20;

/// The offset of the configuration's page; the records follow it.
pub(crate) const CONFIGURATION_OFFSET: u64 = 0;

pub(crate) fn record_offset(slot: SlotId) -> u64 {
    (1 + slot.index() as u64) * PAGE_BYTES
}

/// The length of each slot in an area of `area_bytes` bytes.
pub(crate) fn slot_bytes(area_bytes: u64) -> u64 {
    area_bytes.saturating_sub(HEAD_BYTES) / 2 / SLOT_ALIGN * SLOT_ALIGN
}

/// The offset of a slot in an area of `area_bytes` bytes.
pub(crate) fn slot_offset(slot: SlotId, area_bytes: u64) -> u64 {
    HEAD_BYTES + slot.index() as u64 * slot_bytes(area_bytes)
}
