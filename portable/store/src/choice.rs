use thiserror::Error;

use crate::record::{RecordError, SlotStatus};
use crate::slot::SlotId;

/// The reason why no image wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoImage {
    /// The usual case: no image was written, or it has woken or was discarded.
    #[error("no image")]
    None,
    /// There may be an image, but its record cannot be read.
    #[error("slot {slot}: {error}")]
    Unusable {
        /// The slot.
        slot: SlotId,
        /// The reason why the record cannot be read.
        error: RecordError,
    },
    /// The machine has slept or cold booted since this image was made.
    #[error("the image in slot {0} is out of date")]
    OutOfDate(SlotId),
}

/// Chooses the slot whose image wakes: the committed one, if the other record has no
/// higher generation; else the machine's snapshot.
///
/// An unreadable record does not block the other slot's image: every older image was
/// durably discarded before the readable one was begun. `kept` is the snapshot that the
/// machine's counter permits, if any.
///
/// # Errors
///
/// The reason why no image wakes.
pub fn choose(slots: &[SlotStatus; 2], kept: Option<u64>) -> Result<SlotId, NoImage> {
    for slot in SlotId::BOTH {
        if let Some(image) = slots[slot.index()].committed() {
            let other = slots[slot.other().index()].record();
            if other.is_none_or(|other| other.generation < image.generation) {
                return Ok(slot);
            }
        }
    }
    if let Some(slot) = snapshot(slots, kept) {
        return Ok(slot);
    }
    for slot in SlotId::BOTH {
        match slots[slot.index()] {
            SlotStatus::Unusable(error) => return Err(NoImage::Unusable { slot, error }),
            status if status.committed().is_some() => return Err(NoImage::OutOfDate(slot)),
            _ => {}
        }
    }
    Err(NoImage::None)
}

/// The slot of the machine's snapshot: the one that the counter permits, else the one
/// with the highest generation. An older snapshot can remain if its discard failed.
pub(crate) fn snapshot(slots: &[SlotStatus; 2], kept: Option<u64>) -> Option<SlotId> {
    let generation = |slot: &SlotId| Some(slots[slot.index()].snapshot()?.0.generation);
    SlotId::BOTH
        .into_iter()
        .filter(|slot| generation(slot).is_some())
        .max_by_key(|slot| (generation(slot) == kept, generation(slot)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::record::SlotRecord;
    use crate::slot::{BootAttempts, DiscardReason, SlotState};

    fn status(state: SlotState, generation: u64) -> SlotStatus {
        SlotStatus::Record(SlotRecord {
            state,
            generation,
            slot_offset: 0,
            slot_bytes: 0,
            header_checksum: 0,
            image_bytes: 0,
            sleep_ms: 0,
            name: Name::NONE,
        })
    }

    #[test]
    fn every_pair_of_records_has_its_choice() {
        let consumed = SlotState::Consumed {
            failure: None,
            reported: false,
        };
        let discarded = SlotState::Discarded(DiscardReason::ColdBoot);
        let committed = |generation| status(SlotState::Committed, generation);
        let kept = |generation| status(SlotState::Snapshot(BootAttempts::default()), generation);
        let error = RecordError::Damaged;
        let unusable = SlotStatus::Unusable(error);
        let unusable_slot = |slot| Err(NoImage::Unusable { slot, error });
        let (first, second) = (SlotId::First, SlotId::Second);
        let (none, out_of_date) = (Err(NoImage::None), Err(NoImage::OutOfDate(first)));
        let cases = [
            (SlotStatus::New, SlotStatus::New, none),
            (committed(1), SlotStatus::New, Ok(first)),
            (committed(2), committed(1), Ok(first)),
            (committed(2), status(consumed, 1), Ok(first)),
            (committed(2), status(discarded, 1), Ok(first)),
            (committed(2), unusable, Ok(first)),
            (committed(2), status(consumed, 3), out_of_date),
            (committed(2), status(discarded, 3), out_of_date),
            (committed(2), status(discarded, 2), out_of_date),
            (committed(2), committed(2), out_of_date),
            (status(consumed, 2), status(discarded, 1), none),
            (status(consumed, 2), unusable, unusable_slot(second)),
            (unusable, SlotStatus::New, unusable_slot(first)),
            (unusable, unusable, unusable_slot(first)),
            (kept(1), SlotStatus::New, Ok(first)),
            (kept(1), kept(2), Ok(second)),
            (kept(1), committed(2), Ok(second)),
            (kept(2), committed(1), Ok(first)),
            (kept(1), status(consumed, 2), Ok(first)),
            (kept(1), status(discarded, 2), Ok(first)),
            (kept(1), unusable, Ok(first)),
        ];
        for (one, other, choice) in cases {
            assert_eq!(choose(&[one, other], None), choice, "{one:?}, {other:?}");
            // With the slots swapped, the choice is the other slot.
            let turned = choose(&[other, one], None);
            assert_eq!(
                turned.ok(),
                choice.ok().map(SlotId::other),
                "{other:?}, {one:?}"
            );
            assert_eq!(turned.is_err(), choice.is_err());
        }
    }

    #[test]
    fn of_two_snapshots_the_one_that_the_guard_knows_is_the_machines() {
        let kept = |generation| status(SlotState::Snapshot(BootAttempts::default()), generation);
        let slots = [kept(1), kept(2)];
        for (known, slot) in [(None, 1), (Some(1), 0), (Some(2), 1), (Some(3), 1)] {
            assert_eq!(snapshot(&slots, known).map(SlotId::index), Some(slot));
        }
    }
}
