use thiserror::Error;

use crate::record::{RecordError, RecordFormat, SlotRecord, SlotStatus};
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
    /// The image is of a machine with domains, and this one has none, or the reverse.
    #[error("slot {slot}: the image is of {of}")]
    OtherMachine {
        /// The slot.
        slot: SlotId,
        /// The machine that saved the image.
        of: RecordFormat,
    },
    /// The machine has slept or cold booted since this image was made.
    #[error("the image in slot {0} is out of date")]
    OutOfDate(SlotId),
}

/// Chooses the slot whose image wakes: the committed one, if the other record has no
/// higher generation; else the machine's snapshot. An image in another format than the machine's
/// does not wake.
///
/// An unreadable record does not block the other slot's image: every older image was
/// durably discarded before the readable one was begun. `kept` is the snapshot that the
/// machine's counter permits, if any.
///
/// # Errors
///
/// The reason why no image wakes.
pub fn choose(
    slots: &[SlotStatus; 2],
    kept: Option<u64>,
    format: RecordFormat,
) -> Result<SlotId, NoImage> {
    let is_ours = |record: &&SlotRecord| record.format() == format;
    for slot in SlotId::BOTH {
        if let Some(image) = slots[slot.index()].committed().filter(is_ours) {
            let other = slots[slot.other().index()].record();
            if other.is_none_or(|other| other.generation < image.generation) {
                return Ok(slot);
            }
        }
    }
    // A set is no snapshot.
    if let (RecordFormat::Image, Some(slot)) = (format, snapshot(slots, kept)) {
        return Ok(slot);
    }
    for slot in SlotId::BOTH {
        let of = match &slots[slot.index()] {
            SlotStatus::Unusable(error) => {
                let error = *error;
                return Err(NoImage::Unusable { slot, error });
            }
            SlotStatus::Record(record) if record.may_wake() => record.format(),
            _ => continue,
        };
        return Err(match of == format {
            true => NoImage::OutOfDate(slot),
            false => NoImage::OtherMachine { slot, of },
        });
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
    use crate::parts::Parts;
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
            parts: None,
        })
    }

    const CONSUMED: SlotState = SlotState::Consumed {
        failure: None,
        reported: false,
    };

    fn committed(generation: u64) -> SlotStatus {
        status(SlotState::Committed, generation)
    }

    fn kept(generation: u64) -> SlotStatus {
        status(SlotState::Snapshot(BootAttempts::default()), generation)
    }

    /// The same record, of a set.
    fn set(status: SlotStatus) -> SlotStatus {
        match status {
            SlotStatus::Record(record) => SlotStatus::Record(SlotRecord {
                parts: Some(Parts::NONE),
                ..record
            }),
            other => other,
        }
    }

    #[test]
    fn every_pair_of_records_has_its_choice() {
        let discarded = SlotState::Discarded(DiscardReason::ColdBoot);
        let error = RecordError::Damaged;
        let unusable = SlotStatus::Unusable(error);
        let unusable_slot = |slot| Err(NoImage::Unusable { slot, error });
        let (first, second) = (SlotId::First, SlotId::Second);
        let (none, out_of_date) = (Err(NoImage::None), Err(NoImage::OutOfDate(first)));
        let cases = [
            (SlotStatus::New, SlotStatus::New, none),
            (committed(1), SlotStatus::New, Ok(first)),
            (committed(2), committed(1), Ok(first)),
            (committed(2), status(CONSUMED, 1), Ok(first)),
            (committed(2), status(discarded, 1), Ok(first)),
            (committed(2), unusable, Ok(first)),
            (committed(2), status(CONSUMED, 3), out_of_date),
            (committed(2), status(discarded, 3), out_of_date),
            (committed(2), status(discarded, 2), out_of_date),
            (committed(2), committed(2), out_of_date),
            (status(CONSUMED, 2), status(discarded, 1), none),
            (status(CONSUMED, 2), unusable, unusable_slot(second)),
            (unusable, SlotStatus::New, unusable_slot(first)),
            (unusable, unusable, unusable_slot(first)),
            (kept(1), SlotStatus::New, Ok(first)),
            (kept(1), kept(2), Ok(second)),
            (kept(1), committed(2), Ok(second)),
            (kept(2), committed(1), Ok(first)),
            (kept(1), status(CONSUMED, 2), Ok(first)),
            (kept(1), status(discarded, 2), Ok(first)),
            (kept(1), unusable, Ok(first)),
        ];
        for (one, other, choice) in cases {
            assert_eq!(
                choose(&[one, other], None, RecordFormat::Image),
                choice,
                "{one:?}, {other:?}"
            );
            // With the slots swapped, the choice is the other slot.
            let turned = choose(&[other, one], None, RecordFormat::Image);
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
        let slots = [kept(1), kept(2)];
        for (known, slot) in [(None, 1), (Some(1), 0), (Some(2), 1), (Some(3), 1)] {
            assert_eq!(snapshot(&slots, known).map(SlotId::index), Some(slot));
        }
    }

    #[test]
    fn an_image_wakes_on_a_machine_of_its_kind() {
        let (first, second) = (SlotId::First, SlotId::Second);
        let consumed = |generation| status(CONSUMED, generation);
        let (image, set_of) = (RecordFormat::Image, RecordFormat::Set);
        let of_set = |slot| NoImage::OtherMachine { slot, of: set_of };
        let of_image = |slot| NoImage::OtherMachine { slot, of: image };
        let new = SlotStatus::New;
        // Slots, the choice of a machine without domains, and of one with them.
        let cases = [
            ([committed(1), new], Ok(first), Err(of_image(first))),
            ([set(committed(1)), new], Err(of_set(first)), Ok(first)),
            ([kept(1), new], Ok(first), Err(of_image(first))),
            ([kept(1), set(committed(2))], Ok(first), Ok(second)),
            ([kept(1), set(consumed(2))], Ok(first), Err(of_image(first))),
            (
                [committed(2), set(committed(1))],
                Ok(first),
                Err(of_image(first)),
            ),
            (
                [committed(1), set(committed(2))],
                Err(NoImage::OutOfDate(first)),
                Ok(second),
            ),
            (
                [set(committed(1)), consumed(2)],
                Err(of_set(first)),
                Err(NoImage::OutOfDate(first)),
            ),
            (
                [set(committed(2)), consumed(1)],
                Err(of_set(first)),
                Ok(first),
            ),
            (
                [set(consumed(1)), new],
                Err(NoImage::None),
                Err(NoImage::None),
            ),
        ];
        for (slots, without, with) in cases {
            assert_eq!(choose(&slots, None, image), without, "{slots:?}");
            assert_eq!(choose(&slots, None, set_of), with, "{slots:?}");
        }
        assert_eq!(
            std::format!("{}; {}", of_set(first), of_image(second)),
            "slot 0: the image is of a machine with domains; \
             slot 1: the image is of a machine without domains"
        );
    }
}
