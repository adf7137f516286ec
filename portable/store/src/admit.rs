//! Admits an image to be loaded, and records the result of its wake.

use poorwill_image::ImageKind;
use poorwill_medium::Medium;

use crate::area::{Area, CommittedImage};
use crate::error::StoreError;
use crate::failure::Failure;
use crate::slot::{SlotId, SlotState};

/// The proof that an image may be loaded now. Unless it is a snapshot, it is durably
/// marked as consumed, and will not be loaded again.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted {
    slot: SlotId,
    generation: u64,
}

impl Admitted {
    /// The image's slot.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// The number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<M: Medium> Area<'_, M> {
    /// Admits an image to be loaded: marks it as consumed, durably, or counts the try of
    /// a snapshot. Load no byte of it into OS memory before this returns. Nothing is
    /// written for a snapshot that woke well before, or that has unlimited tries, unless
    /// another image must be discarded.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`]: the image may not wake any more. [`StoreError::PutBack`],
    /// [`StoreError::Spent`] or [`StoreError::NotKeptHere`]: the machine's counter
    /// forbids the wake. After [`StoreError::Medium`], [`StoreError::NotKept`] or
    /// [`StoreError::Vault`] the image may still be committed, see [`Area::discard_all`].
    pub fn admit(&mut self, image: &CommittedImage) -> Result<Admitted, StoreError> {
        if self.newest() != Ok(*image) {
            return Err(StoreError::Stale(image.slot()));
        }
        self.may_wake(image.kind(), image.generation())?;
        match image.kind() {
            ImageKind::Once => self.consume(image.slot())?,
            ImageKind::Snapshot => self.begin_try()?,
        }
        Ok(Admitted {
            slot: image.slot(),
            generation: image.generation(),
        })
    }

    fn consume(&mut self, slot: SlotId) -> Result<(), StoreError> {
        self.disarm()?;
        let state = SlotState::Consumed {
            failure: None,
            reported: false,
        };
        self.change_state(slot, state)
    }

    /// Checks that the machine's counter, if it has one, permits the image of
    /// `generation` to wake.
    ///
    /// # Errors
    ///
    /// [`StoreError::PutBack`], [`StoreError::Spent`], [`StoreError::NotKeptHere`]: it
    /// does not.
    pub fn may_wake(&self, kind: ImageKind, generation: u64) -> Result<(), StoreError> {
        let Some(counter) = &self.counter else {
            return Ok(());
        };
        if kind == ImageKind::Snapshot {
            return if counter.kept() == Some(generation) {
                Ok(())
            } else {
                Err(StoreError::NotKeptHere(generation))
            };
        }
        if counter.armed() == Some(generation) {
            return Ok(());
        }
        let (image, latest) = (generation, counter.generation());
        Err(if image < latest {
            StoreError::PutBack { image, latest }
        } else {
            StoreError::Spent(image)
        })
    }

    /// Records why the wake of an admitted image failed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    // The image is passed by value, so that the caller cannot load it again.
    #[allow(clippy::needless_pass_by_value, reason = "the proof is consumed")]
    pub fn record_failure(&mut self, image: Admitted, failure: Failure) -> Result<(), StoreError> {
        if self.slots[image.slot.index()].snapshot().is_some() {
            return self.snapshot_failed(failure);
        }
        let state = SlotState::Consumed {
            failure: Some(failure),
            reported: false,
        };
        self.change_state(image.slot, state)
    }

    /// The failure of the latest wake, if no boot has reported it yet. A failure before a newer
    /// sleep does not count: it must not keep the newer image from waking.
    #[must_use]
    pub fn unreported_failure(&self) -> Option<(SlotId, Failure)> {
        let generations = self.generations();
        SlotId::BOTH.into_iter().find_map(|slot| {
            let record = self.slots[slot.index()].record()?;
            match record.state {
                SlotState::Consumed {
                    failure: Some(failure),
                    reported: false,
                } if record.generation >= generations[slot.other().index()] => {
                    Some((slot, failure))
                }
                _ => None,
            }
        })
    }

    /// Records that the failure in `slot` has been reported. Does nothing if there is no
    /// failure.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn mark_reported(&mut self, slot: SlotId) -> Result<(), StoreError> {
        match self.slots[slot.index()].record().map(|record| record.state) {
            Some(SlotState::Consumed {
                failure: Some(failure),
                reported: false,
            }) => {
                let state = SlotState::Consumed {
                    failure: Some(failure),
                    reported: true,
                };
                self.change_state(slot, state)
            }
            _ => Ok(()),
        }
    }
}
