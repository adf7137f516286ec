use thiserror::Error;

use crate::record::{RecordError, SlotId, SlotStatus};

/// Why no image wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoImage {
    /// The usual case: there is none, or it has woken or been given up already.
    #[error("no image")]
    None,
    /// There may have been one, but its record cannot be read.
    #[error("slot {slot}: {error}")]
    Unusable {
        /// The slot.
        slot: SlotId,
        /// What is the matter with its record.
        error: RecordError,
    },
    /// The machine has slept or been cold booted after this image.
    #[error("the image in slot {0} is out of date")]
    OutOfDate(SlotId),
}

/// Which slot's image wakes: the committed one with the highest generation, if
/// no record has a higher one still.
///
/// A record that cannot be read does not stand in the way of the other slot's
/// image: every image committed earlier was given up, durably, before the one
/// that can be read was begun.
///
/// # Errors
///
/// Why none does.
pub fn choose(slots: &[SlotStatus; 2]) -> Result<SlotId, NoImage> {
    for slot in SlotId::BOTH {
        if let Some(image) = slots[slot.index()].committed() {
            let other = slots[slot.other().index()].record();
            if other.is_none_or(|other| other.generation < image.generation) {
                return Ok(slot);
            }
        }
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
