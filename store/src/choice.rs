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

/// Which slot's image wakes: the one that is committed, if nothing newer is
/// known of.
///
/// # Errors
///
/// Why none does.
pub fn choose(slots: &[SlotStatus; 2]) -> Result<SlotId, NoImage> {
    let _ = slots;
    todo!()
}
